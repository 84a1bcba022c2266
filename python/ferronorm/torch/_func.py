"""The operators under ``torch.func``'s transforms: autograd as they want it, and rules for vmap."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ferronorm.torch import _autograd, _ops

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def _front(tensor: Tensor | None, dim: int | None) -> Tensor | None:
    """The tensor with its batch first; one without a batch stays as it is."""
    return tensor if tensor is None or dim is None else tensor.movedim(dim, 0)


def _beside(vector: Tensor, dim: int | None, x: Tensor) -> Tensor:
    """A weight or bias (normalised dimensions, perhaps batched) in a shape that goes with x, whose
    first dimension is the batch.
    """
    if dim is None:
        return vector
    rows = x.dim() - vector.dim()
    return vector.reshape(vector.shape[0], *(1,) * rows, *vector.shape[1:])


def _forward_of_batch(
    layer_norm: Callable[..., Any],
    info: Any,
    in_dims: tuple[Any, ...],
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rms: bool,
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    """The batch is one more dimension of rows; a batched weight or bias is applied afterwards."""
    of_x, _, of_weight, of_bias, _, _ = in_dims
    x, weight, bias = _front(x, of_x), _front(weight, of_weight), _front(bias, of_bias)
    if of_x is None:
        x = x.expand(info.batch_size, *x.shape)
    if of_weight is None and of_bias is None:
        return layer_norm(x, normalized_shape, weight, bias, eps, rms), (0, 0)
    y, stats = layer_norm(x, normalized_shape, None, None, eps, rms)
    if weight is not None:
        y = y * _beside(weight, of_weight, y)
    if bias is not None:
        y = y + _beside(bias, of_bias, y)
    return (y.to(x.dtype), stats), (0, 0)


def _backward_of_batch(
    layer_norm_backward: Callable[..., Any],
    info: Any,
    in_dims: tuple[Any, ...],
    dy: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    stats: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rms: bool,
    mask: Sequence[bool],
) -> tuple[tuple[Tensor, ...], tuple[int | None, ...]]:
    """dx as in forward. dw and db are sums over the rows of each entry of the batch by itself."""
    of_dy, of_x, _, of_stats, of_weight, of_bias = in_dims[:6]
    dy, x, stats = (
        _front(tensor, dim) if dim is not None else tensor.expand(info.batch_size, *tensor.shape)
        for tensor, dim in ((dy, of_dy), (x, of_x), (stats, of_stats))
    )
    weight, bias = _front(weight, of_weight), _front(bias, of_bias)
    dims = len(normalized_shape)
    rows = list(range(1, x.dim() - dims))
    dx = dw = db = x.new_empty(0)
    if mask[0]:
        product, w = dy, weight
        if of_weight is not None:
            product, w = (dy * _beside(weight, of_weight, dy)).to(dy.dtype), None
        dx, _, _ = layer_norm_backward(
            product, x, normalized_shape, stats, w, None, eps, rms, [True, False, False]
        )

    def total(z: Tensor) -> Tensor:
        return z.sum(rows) if rows else z

    if mask[1] and weight is not None:
        mean, mean_lo, rstd, rstd_lo = (z.reshape(*z.shape, *(1,) * dims) for z in stats.unbind(-1))
        x_hat = (x - mean - mean_lo) * (rstd + rstd_lo)
        dw = total(dy * x_hat).to(weight.dtype)
    if mask[2] and bias is not None:
        db = total(dy.to(stats.dtype)).to(bias.dtype)
    return (dx, dw, db), tuple(0 if wanted else None for wanted in mask)


class Forward(torch.autograd.Function):
    """The operator ``layer_norm``."""

    forward = staticmethod(_ops.forward)
    setup_context = staticmethod(_autograd.setup_context)

    @staticmethod
    def vmap(*arguments: Any) -> tuple[Any, ...]:
        """The rule for a batch."""
        return _forward_of_batch(Forward.apply, *arguments)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, _: None) -> tuple[Any, ...]:
        """The gradients."""
        return _autograd.gradients(ctx, dy, Backward.apply)


class Backward(torch.autograd.Function):
    """The operator ``layer_norm_backward``."""

    forward = staticmethod(_ops.backward)
    setup_context = staticmethod(_autograd.setup_second)
    backward = staticmethod(_autograd.second)

    @staticmethod
    def vmap(*arguments: Any) -> tuple[Any, ...]:
        """The rule for a batch."""
        return _backward_of_batch(Backward.apply, *arguments)


# Of use where a call reaches the operators themselves: compilation of a vmap.
torch.library.register_vmap(
    "ferronorm::layer_norm", partial(_forward_of_batch, _ops.forward), lib=_ops.library
)
torch.library.register_vmap(
    "ferronorm::layer_norm_backward", partial(_backward_of_batch, _ops.backward), lib=_ops.library
)
