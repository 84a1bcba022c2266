"""DistributedDataParallel: two processes with half a batch each have the gradients of the whole."""

import os
import socket

import pytest

torch = pytest.importorskip("torch")
from torch import distributed, multiprocessing, nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from ferronorm.torch import LayerNorm, RMSNorm  # noqa: E402


def model(device):
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Linear(48, 256), LayerNorm(256), nn.GELU(), nn.Linear(256, 64), RMSNorm(64)
    ).to(device)


def gradients(module, batch):
    module(batch).sin().mean().backward()
    return [parameter.grad for parameter in module.parameters()]


def whole_batch():
    return torch.randn(128, 48, generator=torch.Generator().manual_seed(8))


def worker(rank, kind, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("nccl" if kind == "cuda" else "gloo", rank=rank, world_size=2)
    device = torch.device(kind, rank) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(device)
    parallel = DistributedDataParallel(model(device))
    half = whole_batch().chunk(2)[rank].to(device)
    found = gradients(parallel, half)
    torch.save([gradient.cpu() for gradient in found], folder / f"{rank}.pt")
    distributed.destroy_process_group()


def test_two_processes_have_the_gradients_of_one(device, tmp_path):
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(worker, (device, port, tmp_path), nprocs=2)
    wanted = [gradient.cpu() for gradient in gradients(model(device), whole_batch().to(device))]
    for rank in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt"), wanted)
