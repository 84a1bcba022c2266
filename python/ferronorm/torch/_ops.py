"""The operators ``ferronorm::layer_norm`` and ``ferronorm::layer_norm_backward``.

Registered with ``torch.library``: kernels, shapes for tracing, and autograd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ferronorm.torch import _autograd, _kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

library = torch.library.Library("ferronorm", "DEF")
library.define(
    "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps,"
    " bool rms) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
library.define(
    "layer_norm_backward(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor stats,"
    " Tensor? weight, Tensor? bias, float eps, bool rms, bool[3] output_mask)"
    " -> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
for _key in ("CPU", "CUDA"):
    library.impl("layer_norm", _kernels.forward, _key)
    library.impl("layer_norm_backward", _kernels.checked_backward, _key)

forward = torch.ops.ferronorm.layer_norm.default
backward = torch.ops.ferronorm.layer_norm_backward.default


@torch.library.register_fake("ferronorm::layer_norm", lib=library)
def _forward_shapes(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rms: bool,
) -> tuple[Tensor, Tensor]:
    _kernels.check(x, normalized_shape, weight, bias)
    rows = x.shape[: -len(normalized_shape)]
    return x.new_empty(x.shape), x.new_empty((*rows, 4), dtype=_kernels.stats_dtype(x))


@torch.library.register_fake("ferronorm::layer_norm_backward", lib=library)
def _backward_shapes(
    dy: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    stats: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rms: bool,
    mask: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dw, db = (
        x.new_empty(0) if tensor is None or not wanted else tensor.new_empty(tensor.shape)
        for tensor, wanted in zip((x, weight, bias), mask)
    )
    return dx, dw, db


torch.library.register_autograd(
    "ferronorm::layer_norm",
    lambda ctx, dy, _: _autograd.gradients(ctx, dy, backward),
    setup_context=_autograd.setup_context,
    lib=library,
)
torch.library.register_autograd(
    "ferronorm::layer_norm_backward",
    _autograd.second,
    setup_context=_autograd.setup_second,
    lib=library,
)
