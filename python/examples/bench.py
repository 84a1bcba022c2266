"""Times of eager layer_norm, forward and backward, beside torch's.

    python bench.py --rows 4096 --columns 1024 4096 8192 --dtype float16

call:   calls in a row, until the GPU has done the last: the larger of the next two, or more.
host:   the same, until the host has made the last.
device: replay of a CUDA graph of one call, between two events, after the L2 cache was cleared.

Each figure is the median of the repeats, in microseconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
from torch import Tensor
from torch.nn import functional as F

import ferronorm.torch

Call = Callable[[], object]
CALLS = 100


def call_and_host_time(call: Call, repeats: int) -> tuple[float, float]:
    """Microseconds of a call, and of the host alone."""
    host, whole = [], []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(CALLS):
            call()
        host.append((perf_counter() - start) / CALLS)
        torch.cuda.synchronize()
        whole.append((perf_counter() - start) / CALLS)
    return 1e6 * median(whole), 1e6 * median(host)


def device_time(call: Call, repeats: int) -> float:
    """Microseconds of the device."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    cache = torch.empty(256 * 2**20, dtype=torch.uint8, device="cuda")
    times = []
    for _ in range(repeats):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        cache.zero_()
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(1e3 * start.elapsed_time(stop))
    return median(times)


def calls(norm: Callable[..., Tensor], rows: int, columns: int, dtype: torch.dtype) -> list[Call]:
    """Forward without a graph, and forward with backward."""
    x, dy = torch.randn(2, rows, columns, device="cuda").to(dtype)
    w, b = torch.randn(2, columns, device="cuda").to(dtype)
    inputs = [t.requires_grad_() for t in (x, w, b)]

    @torch.no_grad()
    def forward() -> object:
        return norm(x, (columns,), w, b)

    def both() -> object:
        return torch.autograd.grad(norm(x, (columns,), w, b), inputs, dy)

    return [forward, both]


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, nargs="+", default=[1024, 4096, 8192])
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--repeats", type=int, default=31)
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.dtype}")
    print(f"{'':23}" + "".join(f"{name:^27}" for name in ("forward, no graph", "and backward")))
    print(
        f"{'M x N':>12} {'':<10}" + 2 * "".join(f"{name:>9}" for name in ("call", "host", "device"))
    )
    for columns in options.columns:
        for name, norm in (("torch", F.layer_norm), ("ferronorm", ferronorm.torch.layer_norm)):
            figures = []
            for call in calls(norm, options.rows, columns, dtype):
                for _ in range(10):
                    call()
                figures += call_and_host_time(call, options.repeats)
                figures.append(device_time(call, options.repeats))
            shape = f"{options.rows} x {columns}"
            print(f"{shape:>12} {name:<10}" + "".join(f"{figure:9.1f}" for figure in figures))


if __name__ == "__main__":
    main()
