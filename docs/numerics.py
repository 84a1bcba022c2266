#!/usr/bin/env python3
"""Errors of LayerNorm implementations against f64, on what `examples/numerics.rs` wrote.

    python3 docs/numerics.py <directory>

Prints a table for docs/numerics.md: of each implementation the mean and the largest error of y and
dx, and the relative L2 error of dw and db. The right values are PyTorch's own, in f64, with autograd.
Liger is measured where the package `liger_kernel` is installed.
"""
import pathlib
import sys

import torch
import triton
import triton.language as tl

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@triton.jit
def forward_row(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, n, eps, SIZE: tl.constexpr):
    """One program a row: mean, variance of the distances, y."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, SIZE)
    inside = at < n
    x = tl.load(x_ptr + row * n + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n
    distance = tl.where(inside, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(distance * distance, axis=0) / n + eps)
    w = tl.load(w_ptr + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * n + at, distance * rstd * w + b, mask=inside)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def backward_row(x_ptr, w_ptr, dy_ptr, dx_ptr, dw_ptr, db_ptr, mean_ptr, rstd_ptr, n, SIZE: tl.constexpr):
    """One program a row: dx, and the row's terms of dw and db in the type of w."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, SIZE)
    inside = at < n
    x = tl.load(x_ptr + row * n + at, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * n + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=inside, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    hat = tl.where(inside, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
    wdy = w * dy
    c1 = tl.sum(hat * wdy, axis=0) / n
    c2 = tl.sum(wdy, axis=0) / n
    tl.store(dx_ptr + row * n + at, (wdy - (hat * c1 + c2)) * rstd, mask=inside)
    tl.store(dw_ptr + row * n + at, dy * hat, mask=inside)
    tl.store(db_ptr + row * n + at, dy, mask=inside)


def by_triton(x, w, b, dy, eps):
    """The chapter's row formulae; the sums over rows by torch, from terms in the type of w."""
    rows, n = x.shape
    size = triton.next_power_of_2(n)
    warps = min(max(size // 256, 1), 16)
    y, dx, dw, db = (torch.empty_like(x) for _ in range(4))
    mean, rstd = (torch.empty(rows, device=x.device) for _ in range(2))
    forward_row[(rows,)](x, w, b, y, mean, rstd, n, eps, SIZE=size, num_warps=warps)
    backward_row[(rows,)](x, w, dy, dx, dw, db, mean, rstd, n, SIZE=size, num_warps=warps)
    return y, dx, dw.float().sum(0).to(w.dtype), db.float().sum(0).to(w.dtype)


def by_autograd(norm):
    """An implementation that is a differentiable function of x, w and b."""

    def run(x, w, b, dy, eps):
        x, w, b = (tensor.detach().clone().requires_grad_() for tensor in (x, w, b))
        y = norm(x, w, b, eps)
        y.backward(dy)
        return y.detach(), x.grad, w.grad, b.grad

    return run


def torch_norm(x, w, b, eps):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, eps)


def implementations():
    found = {"torch": by_autograd(torch_norm), "Triton": by_triton}
    try:
        from liger_kernel.ops.layer_norm import LigerLayerNormFunction
        found["Liger"] = by_autograd(LigerLayerNormFunction.apply)
    except ImportError:
        print("liger_kernel is not installed", file=sys.stderr)
    return found


def errors(found, right):
    """Mean and largest error of y and dx, relative L2 error of dw and db; in f64."""
    cells = []
    for name in ("y", "dx"):
        difference = (found[name].double() - right[name]).abs()
        cells.append(f"{difference.mean().item():.2e} / {difference.max().item():.2e}")
    for name in ("dw", "db"):
        difference = found[name].double() - right[name]
        cells.append(f"{(difference.norm() / right[name].norm()).item():.2e}")
    return cells


def main():
    directory = pathlib.Path(sys.argv[1])
    print("| rows | type | by | y, mean / max | dx, mean / max | dw, rel. L2 | db, rel. L2 |")
    print("|---|---|---|---|---|---|---|")
    for line in (directory / "cases.tsv").read_text().splitlines():
        case, dtype, rows, n, eps = line.split("\t")
        rows, n, eps = int(rows), int(n), float(eps)

        def read(tensor, *shape):
            data = bytearray((directory / f"{case}.{tensor}").read_bytes())
            return torch.frombuffer(data, dtype=TYPES[dtype]).reshape(shape).cuda()

        x, dy = read("x", rows, n), read("dy", rows, n)
        w, b = read("w", n), read("b", n)
        names = ("y", "dx", "dw", "db")
        right = by_autograd(torch_norm)(x.double(), w.double(), b.double(), dy.double(), eps)
        right = dict(zip(names, right))
        shapes = {"y": (rows, n), "dx": (rows, n), "dw": (n,), "db": (n,)}
        results = {"ferronorm": {name: read(name, *shapes[name]) for name in names}}
        for by, run in implementations().items():
            try:
                results[by] = dict(zip(names, run(x, w, b, dy, eps)))
            except Exception as error:  # a peer that refuses the shape
                print(f"{case}: {by}: {error}", file=sys.stderr)
        for by, found in results.items():
            cells = " | ".join(errors(found, right))
            print(f"| {case.rsplit('.', 1)[0]}, {rows} x {n} | {dtype} | {by} | {cells} |")


if __name__ == "__main__":
    main()
