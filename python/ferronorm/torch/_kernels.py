"""The kernels on torch's tensors: memory by torch's allocator, launches on its current stream."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import torch

from ferronorm import _ferronorm
from ferronorm._layout import row_stride

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_TYPES = {
    (getattr(torch, x), getattr(torch, w)): place for place, (x, w) in enumerate(_ferronorm.TYPES)
}
_FLOATS = {x for x, _ in _TYPES}


def stats_dtype(x: Tensor) -> torch.dtype:
    """The type of the statistics that forward saves: four numbers a row."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def check(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None
) -> int:
    """Refuses what torch refuses, with its errors. Gives the types' place in TYPES."""
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    if x.shape[-len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{list(x.shape)}"
        )
    dtype = x.dtype
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is None:
            continue
        if tensor.shape != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(tensor.shape)} and normalized_shape = {list(shape)}"
            )
        if tensor.device != x.device:
            raise RuntimeError(f"{name}: on {tensor.device}, where the input is on {x.device}")
        if name == "bias" and weight is not None and tensor.dtype != dtype:
            raise RuntimeError(f"bias: {tensor.dtype}, where the weight is {dtype}")
        dtype = tensor.dtype
    types = _TYPES.get((x.dtype, dtype))
    if types is not None:
        return types
    if x.dtype not in _FLOATS:
        raise NotImplementedError(f"input: {x.dtype}, where a real floating-point type is wanted")
    raise RuntimeError(
        f"weight and bias: {dtype}, where the input is {x.dtype}: its own type is wanted, "
        "or torch.float32 for one of 16 bits"
    )


def forward(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    rms: bool,
) -> tuple[Tensor, Tensor]:
    """The result, and the rows' statistics for backward."""
    types = check(x, normalized_shape, weight, bias)
    dims = len(normalized_shape)
    columns = prod(normalized_shape)
    x, stride = _rows(x, dims, columns)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    stats = x.new_empty((*x.shape[:-dims], 4), dtype=stats_dtype(x))
    if columns == 0:
        return y, stats.zero_()
    call = _ferronorm.Forward(
        x.get_device(),
        types,
        x.numel() // columns,
        columns,
        eps,
        rms,
        x.data_ptr(),
        stride,
        0 if weight is None else (weight := weight.contiguous()).data_ptr(),
        0 if bias is None else (bias := bias.contiguous()).data_ptr(),
        y.data_ptr(),
        stats.data_ptr(),
    )
    _launch(call, x)
    return y, stats


def backward(
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
    """The gradients of x, weight and bias; an empty tensor for one that is not asked for.

    Of arguments that go with a forward.
    """
    vector = bias if weight is None else weight
    types = _TYPES[x.dtype, x.dtype if vector is None else vector.dtype]
    dims = len(normalized_shape)
    columns = prod(normalized_shape)
    x, x_stride = _rows(x, dims, columns)
    dy, dy_stride = _rows(dy, dims, columns)
    stats = stats.contiguous()
    dx = torch.empty_like(x, memory_format=torch.contiguous_format) if mask[0] else x.new_empty(0)
    dw = _gradient(weight, mask[1], x)
    db = _gradient(bias, mask[2], x)
    if columns == 0:
        return dx, dw, db
    call = _ferronorm.Backward(
        x.get_device(),
        types,
        x.numel() // columns,
        columns,
        eps,
        rms,
        x.data_ptr(),
        x_stride,
        0 if weight is None else (weight := weight.contiguous()).data_ptr(),
        stats.data_ptr(),
        dy.data_ptr(),
        dy_stride,
        dx.data_ptr(),
        dw.data_ptr(),
        db.data_ptr(),
    )
    _launch(call, x)
    return dx, dw, db


def checked_backward(
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
    """:func:`backward` of arguments that may come from anywhere."""
    check(x, normalized_shape, weight, bias)
    rows = x.shape[: -len(normalized_shape)]
    for name, tensor, shape, dtype in (
        ("grad", dy, x.shape, x.dtype),
        ("stats", stats, (*rows, 4), stats_dtype(x)),
    ):
        if (tensor.shape, tensor.dtype, tensor.device) != (shape, dtype, x.device):
            raise RuntimeError(
                f"{name}: {tensor.dtype} of shape {list(tensor.shape)} on {tensor.device}, where "
                f"{dtype} of shape {list(shape)} on {x.device} is wanted"
            )
    return backward(dy, x, normalized_shape, stats, weight, bias, eps, rms, mask)


def _launch(call: _ferronorm.Forward | _ferronorm.Backward, x: Tensor) -> None:
    stream = torch._C._cuda_getCurrentRawStream(x.get_device()) if x.is_cuda else 0
    size = call.scratch
    # Held until the launch is made. The allocator gives it to later work of the same stream only.
    scratch = x.new_empty(size, dtype=torch.uint8) if size else None
    call.launch(stream, 0 if scratch is None else scratch.data_ptr())


def _rows(x: Tensor, dims: int, columns: int) -> tuple[Tensor, int]:
    """The tensor, copied if the kernels cannot take it as it lies, and its row stride."""
    if x.is_contiguous():
        return x, columns
    stride = row_stride(x.shape, x.stride(), dims)
    return (x.contiguous(), columns) if stride is None else (x, stride)


def _gradient(tensor: Tensor | None, wanted: bool, x: Tensor) -> Tensor:
    if tensor is None or not wanted:
        return x.new_empty(0)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)
