"""Which strides the kernels take as they are, against an enumeration of every row's place."""

import itertools

import pytest

from ferronorm._layout import row_stride


def places(shape, strides, dims):
    """Where each row begins, and where its elements are from there."""
    rows, inner = shape[:-dims], shape[-dims:]

    def offsets(sizes, steps):
        indices = itertools.product(*map(range, sizes))
        return [sum(i * s for i, s in zip(index, steps)) for index in indices]

    return offsets(rows, strides[:-dims]), offsets(inner, strides[-dims:])


@pytest.mark.parametrize("shape", [(4,), (1,), (3, 4), (2, 3, 4), (2, 1, 4), (1, 3, 4), (2, 3, 1)])
@pytest.mark.parametrize("dims", [1, 2])
def test_a_stride_is_given_exactly_where_rows_lie_at_one(shape, dims):
    if dims > len(shape):
        return
    for strides in itertools.product([0, 1, 2, 4, 5, 8, 12, 15], repeat=len(shape)):
        stride = row_stride(shape, strides, dims)
        rows, inner = places(shape, strides, dims)
        dense = inner == list(range(len(inner)))
        steps = {b - a for a, b in itertools.pairwise(rows)}
        if not dense or len(steps) > 1:
            assert stride is None, strides
        else:
            assert stride == (steps.pop() if steps else len(inner)), strides


def test_a_negative_stride_is_copied():
    assert row_stride((3, 4), (-4, 1), 1) is None
