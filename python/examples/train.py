"""Trains a small transformer with torch's LayerNorm, then with ferronorm's.

    python train.py --steps 200

Shows tokens per second and the losses. It runs on the GPU, if there is one, in bf16 autocast. The
text it learns is its own source. Needs tqdm.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

import ferronorm.torch


class Transformer(nn.Module):
    """Predicts the next byte."""

    def __init__(self, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.places = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(width)
        self.layers = nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        self.register_buffer("mask", mask)

    def forward(self, text: Tensor) -> Tensor:
        """The logits of each next byte."""
        x = self.bytes(text) + self.places.weight
        return self.head(self.layers(x, self.mask, is_causal=True))


def train(name: str, options: argparse.Namespace, device: str) -> list[float]:
    """Trains with the LayerNorm of that name. Gives the loss of each step."""
    torch.manual_seed(0)
    model = Transformer(options.width, options.layers, options.length).to(device)
    if name == "ferronorm":
        ferronorm.torch.replace(model)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    text = torch.frombuffer(bytearray(Path(__file__).read_bytes()), dtype=torch.uint8).long()
    windows = text.unfold(0, options.length + 1, 1)
    pick = torch.Generator().manual_seed(1)
    losses: list[Tensor] = []
    started = 0.0
    with tqdm(total=options.steps, desc=f"{name:>9}", unit="step") as bar:
        for step in range(options.steps):
            if step == options.warmup:
                # Kernels are compiled and memory is at hand.
                synchronize(device)
                started = perf_counter()
            batch = windows[torch.randint(len(windows), (options.batch,), generator=pick)]
            batch = batch.to(device)
            with torch.autocast(device, torch.bfloat16):
                logits = model(batch[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            bar.update()
            done = step + 1 - options.warmup
            if done > 0 and (done % 10 == 0 or step + 1 == options.steps):
                synchronize(device)
                speed = done * options.batch * options.length / (perf_counter() - started)
                bar.set_postfix_str(f"{speed:,.0f} tokens/s, loss {loss.item():.4f}")
    return [loss.item() for loss in losses]


def synchronize(device: str) -> None:
    """Waits for the device."""
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Trains twice, and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torchs, ours = (train(name, options, device) for name in ("torch", "ferronorm"))
    worst = max(abs(a - b) / b for a, b in zip(ours, torchs))
    print(f"loss {torchs[0]:.4f} -> {torchs[-1]:.4f} with torch's, {ours[-1]:.4f} with ferronorm's")
    print(f"largest difference of a step's loss: {100 * worst:.2f} %")


if __name__ == "__main__":
    main()
