"""A call's way to the kernels: the shortest that whatever looks on allows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ferronorm.torch import _autograd, _func, _kernels, _ops

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def apply(
    x: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rms: bool,
) -> Tensor:
    """LayerNorm or RMSNorm of a tensor, with autograd."""
    if _is_plain(x, weight, bias):
        if torch.is_grad_enabled():
            return _Eager.apply(x, normalized_shape, weight, bias, eps, rms)
        return _kernels.forward(x, normalized_shape, weight, bias, eps, rms)[0]
    if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        return _func.Forward.apply(x, normalized_shape, weight, bias, eps, rms)[0]
    return _ops.forward(x, normalized_shape, weight, bias, eps, rms)[0]


class _Eager(torch.autograd.Function):
    """The same as the operator's autograd, without the dispatcher in between."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        y, stats = _kernels.forward(*args)
        _autograd.save(ctx, args, stats)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        direct = not torch.is_grad_enabled() and _is_plain(dy)
        return _autograd.gradients(ctx, dy, _kernels.backward if direct else _ops.backward)


def _is_plain(*tensors: Tensor | None) -> bool:
    """Whether nothing looks on or stands between: no tracing, mode, transform, subclass or view
    that is yet to be negated. An operator written in Python costs some 50 us a call and backward,
    as much as all of torch's own, and only these need it.
    """
    if (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
    ):
        return False
    for tensor in tensors:
        if tensor is not None and (
            type(tensor) not in _PLAIN or not (tensor.is_cuda or tensor.is_cpu) or tensor.is_neg()
        ):
            return False
    return True
