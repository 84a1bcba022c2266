"""What autograd keeps from forward, and what it calls backward: whichever way a call came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferronorm.torch._second import second_derivative

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def save(ctx: Any, inputs: tuple[Any, ...], stats: Tensor) -> None:
    """Keeps what :func:`gradients` needs."""
    x, normalized_shape, weight, bias, eps, rms = inputs
    ctx.save_for_backward(x, stats, weight, bias)
    ctx.rest = normalized_shape, eps, rms


def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """:func:`save`, where the statistics are an output: one that has no gradient."""
    save(ctx, inputs, output[1])
    ctx.mark_non_differentiable(output[1])
    # Else a gradient of zeros would be made for the statistics in every backward.
    ctx.set_materialize_grads(False)


def gradients(ctx: Any, dy: Tensor | None, backward: Callable[..., Any]) -> tuple[Any, ...]:
    """The gradients of forward's six arguments."""
    if dy is None:
        return (None,) * 6
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


def setup_second(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Keeps what :func:`second` needs."""
    dy, x, normalized_shape, _, weight, _, eps, rms, mask = inputs
    ctx.save_for_backward(dy, x, weight)
    ctx.rest = len(normalized_shape), eps, rms, mask
    ctx.set_materialize_grads(False)


def second(ctx: Any, *cotangents: Tensor | None) -> tuple[Any, ...]:
    """The gradients of backward's nine arguments. The statistics are a function of x."""
    dy, x, weight = ctx.saved_tensors
    dims, eps, rms, mask = ctx.rest
    asked = [c if wanted else None for c, wanted in zip(cotangents, mask)]
    of_dy, of_x, of_weight = second_derivative(dy, x, weight, dims, eps, rms, *asked)
    return of_dy, of_x, None, None, of_weight, None, None, None, None
