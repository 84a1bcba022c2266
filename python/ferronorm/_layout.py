"""How the rows of an array lie: what the kernels take without a copy."""

from __future__ import annotations

from collections.abc import Sequence


def row_stride(shape: Sequence[int], strides: Sequence[int], normalized: int) -> int | None:
    """Elements from one row to the next, where a row is the last ``normalized`` dimensions.

    ``None`` if a row has gaps, or if its rows do not lie at one stride: a copy is needed.
    """
    columns = 1
    for size, stride in zip(reversed(shape[-normalized:]), reversed(strides[-normalized:])):
        if size != 1 and stride != columns:
            return None
        columns *= size
    step = next_stride = None
    for size, stride in zip(reversed(shape[:-normalized]), reversed(strides[:-normalized])):
        if size == 1:
            continue
        if stride < 0 or next_stride not in (None, stride):
            return None
        step = stride if step is None else step
        next_stride = stride * size
    return columns if step is None else step
