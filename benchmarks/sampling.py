"""How quickly pictures come: `python -m benchmarks.sampling`.

Images per second of the default generator by its previews and whole, against the whole picture made one at a time and
resized, in turn in every round; ratios are within a round. Then a grid of 16 through the Studio: cold, in processes
that have loaded no model yet, and warm, in the same ones, at seeds that were never drawn. StyleGAN2 has a benchmark of
its own.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.memory import alone
from benchmarks.tables import spread
from engine.generators import bases
from engine.models import pictures, to_pixels
from engine.studio import Studio

SIZES = (128, 256, 1024)
GRID, SIDE = 16, 128


@torch.no_grad()
def plainly(model: nn.Module, w: Tensor, size: int) -> None:
    for code in w.split(1):
        to_pixels(F.interpolate(model.synth(code), size=(size, size), mode="area"))


def rates(rounds: int, batch: int) -> None:
    model = bases["ffhq"].load().eval().requires_grad_(False)
    w = model.map(model.sample_z(range(batch)), psi=0.7)
    plainly(model, w[:1], SIZES[0])
    for size in SIZES:
        pictures(model, w[:1], size=size)
        taken = []
        for _ in range(rounds):
            started = time.perf_counter()
            plainly(model, w, size)
            between = time.perf_counter()
            pictures(model, w, size=size)
            taken.append((between - started, time.perf_counter() - between))
        ratios = [plain / ours for plain, ours in taken]
        plain, ours = (batch / statistics.median(column) for column in zip(*taken, strict=True))
        print(f"| {size} px | {plain:.2f} | {ours:.2f} | {spread(ratios)} |", flush=True)


def grid_latencies() -> tuple[float, float]:
    """Seconds of the first grid and of the next one."""
    with tempfile.TemporaryDirectory() as folder:
        started, taken = time.perf_counter(), []
        studio = Studio(Path(folder), base="ffhq")
        for number in range(2):
            studio.sample("ffhq", range(GRID * number, GRID * (number + 1)), size=SIDE)
            taken.append(time.perf_counter() - started)
            started = time.perf_counter()
        studio.close()
        return tuple(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    print(f"## Sampling\n\nffhq, {args.batch} pictures a round, {torch.get_num_threads()} threads.\n")
    print("| size | whole and resized, images/s | ours, images/s | times as fast (spread) |\n|---|---|---|---|")
    rates(args.rounds, args.batch)
    cold, warm = zip(*(alone(grid_latencies) for _ in range(args.rounds)), strict=True)
    print(f"\n| {GRID} pictures at {SIDE} px | s (spread) |\n|---|---|")
    print(f"| cold, the model loaded from disk | {spread(cold)} |\n| warm | {spread(warm)} |")


if __name__ == "__main__":
    main()
