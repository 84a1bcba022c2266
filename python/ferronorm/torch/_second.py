"""The derivative of backward, in torch's own operators, so that it has derivatives itself.

With P(z) = rstd * (z - mean(z) - x_hat * mean(z * x_hat)), which is its own adjoint, and means over
a row (RMSNorm leaves the mean of z out):

    dx = P(w * dy)      dw = sum over rows of dy * x_hat      db = sum over rows of dy
"""

from __future__ import annotations

import torch
from torch import Tensor


def second_derivative(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    dims: int,
    eps: float,
    rms: bool,
    u: Tensor | None,
    v: Tensor | None,
    t: Tensor | None,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of dy, x and weight, from those of dx, dw and db: ``u``, ``v`` and ``t``."""
    real = torch.float64 if x.dtype == torch.float64 else torch.float32
    types = dy.dtype, x.dtype, None if weight is None else weight.dtype
    dy, x, weight, u, v, t = (None if z is None else z.to(real) for z in (dy, x, weight, u, v, t))
    row, rows = list(range(-dims, 0)), list(range(x.dim() - dims))

    def mean(z: Tensor) -> Tensor:
        return z.mean(row, keepdim=True)

    def centre(z: Tensor) -> Tensor:
        return z if rms else z - mean(z)

    rstd = (mean(centre(x).square()) + eps).rsqrt()
    x_hat = centre(x) * rstd

    def p(z: Tensor) -> Tensor:
        return rstd * (centre(z) - x_hat * mean(z * x_hat))

    of_dy = of_x = of_weight = None
    if u is not None:
        wdy = dy if weight is None else dy * weight
        of_dy = p(u) if weight is None else p(u) * weight
        if weight is not None:
            of_weight = (dy * p(u)).sum(rows) if rows else dy * p(u)
        # rstd and x_hat depend on x, in P of the product.
        a, b = mean(wdy * x_hat), mean(u * x_hat)
        of_x = -rstd * (
            rstd * x_hat * (mean(centre(u) * centre(wdy)) - a * b) + p(wdy) * b + p(u) * a
        )
    if v is not None:
        of_dy = v * x_hat if of_dy is None else of_dy + v * x_hat
        of_x = p(v * dy) if of_x is None else of_x + p(v * dy)
    if t is not None:
        of_dy = t.expand_as(x) if of_dy is None else of_dy + t
    of_dy, of_x, of_weight = (
        None if z is None else z.to(dtype) for z, dtype in zip((of_dy, of_x, of_weight), types)
    )
    return of_dy, of_x, of_weight
