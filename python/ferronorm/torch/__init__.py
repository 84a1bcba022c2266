"""ferronorm for PyTorch: ``torch.nn.functional.layer_norm`` and ``rms_norm``, and their modules.

>>> import torch
>>> from ferronorm.torch import layer_norm
>>> layer_norm(torch.tensor([[1.0, 3.0]]), (2,), eps=0.0)
tensor([[-1.,  1.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from ferronorm.torch._apply import apply

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LayerNorm", "RMSNorm", "layer_norm", "replace", "rms_norm"]

_Model = TypeVar("_Model", bound=nn.Module)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``torch.nn.functional.layer_norm``, by ferronorm's kernels."""
    _check_is_tensor(input)
    if torch.is_autocast_enabled("cuda") and input.is_cuda:
        # As torch does: layer_norm is on the list of what autocast calculates in f32.
        input, weight, bias = (
            z.float() if z is not None and z.dtype != torch.float64 else z
            for z in (input, weight, bias)
        )
    return apply(input, tuple(normalized_shape), weight, bias, eps, False)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """``torch.nn.functional.rms_norm``, by ferronorm's kernels."""
    _check_is_tensor(input)
    real = input.dtype if input.dtype in (torch.float64, torch.float32) else torch.float32
    if eps is None:
        eps = torch.finfo(real).eps
    if weight is not None and weight.dtype != input.dtype:
        # torch takes any pair of types. The kernels calculate in `real` anyway.
        weight = weight.to(real)
    return apply(input, tuple(normalized_shape), weight, None, eps, True)


def _check_is_tensor(input: Tensor) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"input: {type(input).__name__}, where a Tensor is wanted")


class LayerNorm(nn.LayerNorm):
    """``torch.nn.LayerNorm``, by ferronorm's kernels: the same constructor and state dict."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalises the last dimensions."""
        return layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """``torch.nn.RMSNorm``, by ferronorm's kernels: the same constructor and state dict."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalises the last dimensions."""
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)


def replace(model: _Model) -> _Model:
    """Makes every ``torch.nn.LayerNorm`` and ``torch.nn.RMSNorm`` in the model one of ferronorm's.

    In place: parameters, hooks and whatever refers to a module stay. Subclasses are left alone,
    since they may calculate something else. Returns the model.
    """
    classes = {nn.LayerNorm: LayerNorm, nn.RMSNorm: RMSNorm}
    for module in model.modules():
        module.__class__ = classes.get(type(module), type(module))
    return model
