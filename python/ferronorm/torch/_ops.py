"""The operators ``ferronorm::layer_norm`` and ``ferronorm::layer_norm_backward``.

Registered with ``torch.library``: kernels, shapes for tracing, autograd, and vmap. :func:`apply` is
what the functions of this package call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ferronorm.torch import _kernels, _vmap
from ferronorm.torch._second import second_derivative

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

_library = torch.library.Library("ferronorm", "DEF")
_library.define(
    "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps,"
    " bool rms) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_library.define(
    "layer_norm_backward(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor stats,"
    " Tensor? weight, Tensor? bias, float eps, bool rms, bool[3] output_mask)"
    " -> (Tensor, Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
for _key in ("CPU", "CUDA"):
    _library.impl("layer_norm", _kernels.forward, _key)
    _library.impl("layer_norm_backward", _kernels.backward, _key)

_forward = torch.ops.ferronorm.layer_norm.default
_backward = torch.ops.ferronorm.layer_norm_backward.default


@torch.library.register_fake("ferronorm::layer_norm", lib=_library)
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


@torch.library.register_fake("ferronorm::layer_norm_backward", lib=_library)
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


def _save(ctx: Any, inputs: tuple[Any, ...], stats: Tensor) -> None:
    x, normalized_shape, weight, bias, eps, rms = inputs
    ctx.save_for_backward(x, stats, weight, bias)
    ctx.rest = normalized_shape, eps, rms


def _gradients(ctx: Any, dy: Tensor, backward: Callable[..., Any]) -> tuple[Any, ...]:
    x, stats, weight, bias = ctx.saved_tensors
    normalized_shape, eps, rms = ctx.rest
    of_x, _, of_weight, of_bias, _, _ = ctx.needs_input_grad
    mask = [of_x, of_weight, of_bias]
    dx, dw, db = backward(dy, x, normalized_shape, stats, weight, bias, eps, rms, mask)
    return (
        dx if of_x else None,
        None,
        dw if of_weight else None,
        db if of_bias else None,
        None,
        None,
    )


def _save_all(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _save(ctx, inputs, output[1])
    ctx.mark_non_differentiable(output[1])
    # Else a gradient of zeros would be made for the statistics in every backward.
    ctx.set_materialize_grads(False)


def _gradients_of_all(ctx: Any, dy: Tensor | None, _: None) -> tuple[Any, ...]:
    return (None,) * 6 if dy is None else _gradients(ctx, dy, _backward)


torch.library.register_autograd(
    "ferronorm::layer_norm",
    _gradients_of_all,
    setup_context=_save_all,
    lib=_library,
)


def _save_for_second(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    dy, x, ctx.normalized_shape, _, weight, _, ctx.eps, ctx.rms, ctx.mask = inputs
    ctx.save_for_backward(dy, x, weight)
    ctx.set_materialize_grads(False)


def _second(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
    dy, x, weight = ctx.saved_tensors
    dims = len(ctx.normalized_shape)
    asked = [c if wanted else None for c, wanted in zip(cotangents, ctx.mask)]
    of_dy, of_x, of_weight = second_derivative(dy, x, weight, dims, ctx.eps, ctx.rms, *asked)
    return of_dy, of_x, None, None, of_weight, None, None, None, None


torch.library.register_autograd(
    "ferronorm::layer_norm_backward", _second, setup_context=_save_for_second, lib=_library
)
torch.library.register_vmap("ferronorm::layer_norm", _vmap.forward, lib=_library)
torch.library.register_vmap("ferronorm::layer_norm_backward", _vmap.backward, lib=_library)


class _Eager(torch.autograd.Function):
    """The same as the operator's autograd, without the dispatcher in between."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        y, stats = _kernels.forward(*args)
        _save(ctx, args, stats)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        direct = not torch.is_grad_enabled() and _is_plain(dy)
        return _gradients(ctx, dy, _kernels.backward if direct else _backward)


def _is_plain(*tensors: Tensor | None) -> bool:
    """Whether nothing looks on or stands between: no tracing, mode, transform, subclass or view
    that is yet to be negated. An operator written in Python costs some 50 us a call and backward,
    as much as all of torch's own, and only these need it.
    """
    if (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
    ):
        return False
    for tensor in tensors:
        if tensor is not None and (
            type(tensor) not in (torch.Tensor, torch.nn.Parameter)
            or not (tensor.is_cuda or tensor.is_cpu)
            or tensor.is_neg()
        ):
            return False
    return True


def apply(
    x: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rms: bool,
) -> Tensor:
    """LayerNorm or RMSNorm of a tensor, with autograd."""
    if not _is_plain(x, weight, bias):
        return _forward(x, normalized_shape, weight, bias, eps, rms)[0]
    if not torch.is_grad_enabled():
        return _kernels.forward(x, normalized_shape, weight, bias, eps, rms)[0]
    return _Eager.apply(x, normalized_shape, weight, bias, eps, rms)
