"""How near the preview heads come to the full picture, and what they cost: `python -m benchmarks.heads`.

Every size is timed in turn in each round, and ratios are taken within a round, so that a busy machine tells the same.
Writes docs/heads.png: the full picture, area-downscaled, above the head's, at 128 and at 256 px.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from engine.delta import editable
from engine.generators import bases
from engine.losses import lpips

SHEET = Path(__file__).resolve().parents[1] / "docs" / "heads.png"


@torch.no_grad()
def nearness(model, seeds, psi):
    """Mean L1, LPIPS-Alex and its 95th percentile for each head, against the full picture."""
    look, found = lpips("alex"), {size: [] for size in model.sizes[:-1]}
    for seed in seeds:
        w = model.map(model.sample_z([seed]), psi=psi)
        full = model.synth(w)
        for size, rows in found.items():
            wanted, made = F.adaptive_avg_pool2d(full, size), model.synth(w, size=size)
            rows.append((F.l1_loss(made, wanted).item(), look(made, wanted).item()))
    return {size: torch.tensor(rows) for size, rows in found.items()}


def seconds(work, size):
    started = time.perf_counter()
    work(size)
    return time.perf_counter() - started


def costs(model, rounds):
    """{size: [(forward, forward and backward) of each round]}, one picture at a time."""
    parameters, w = editable(model), model.map(model.sample_z([0]), psi=0.7).detach()

    def forward(size):
        with torch.no_grad():
            model.synth(w, size=size)

    def backward(size):
        for parameter in parameters:
            parameter.grad = None
        model.synth(w, size=size).square().mean().backward()

    taken = []
    for work in (forward, backward):  # apart: a backward pass leaves the caches and the allocator in another state
        found = {size: [] for size in model.sizes}
        for _ in range(rounds + 1):
            for size, times in found.items():
                times.append(seconds(work, size))
        taken.append({size: times[1:] for size, times in found.items()})  # the first round warms up
    return {size: list(zip(*(part[size] for part in taken), strict=True)) for size in model.sizes}


@torch.no_grad()
def sheet(model, seeds, path):
    """One column a seed: full and head at 128 px, full and head at 256 px, all drawn 256 px wide."""
    from PIL import Image

    w = model.map(model.sample_z(seeds), psi=0.7)
    full = torch.cat([F.adaptive_avg_pool2d(model.synth(row[None]), 256) for row in w])
    rows = []
    for size in (128, 256):
        heads = torch.cat([model.synth(row[None], size=size) for row in w])
        rows += [F.interpolate(part, size=256) for part in (F.adaptive_avg_pool2d(full, size), heads)]
    pixels = ((torch.stack(rows).clamp(-1, 1) + 1) * 127.5).round().byte()  # [row, column, 3, 256, 256]
    picture = pixels.permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(picture.numpy()).save(path, optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    model = bases["ffhq"].load()

    first = 100_000  # far from the codes that the heads were trained on
    print(f"## Preview heads\n\nAgainst the area-downscaled 1024 px picture; {args.seeds} seeds from {first}.\n")
    print("| head | psi | L1 in [-1, 1] | LPIPS-Alex | 95th percentile |\n|---|---|---|---|---|")
    for psi in (0.7, 1.0):
        for size, rows in nearness(model, range(first, first + args.seeds), psi).items():
            l1, distance = rows.mean(0)
            print(f"| {size} px | {psi} | {l1:.3f} | {distance:.3f} | {rows[:, 1].quantile(0.95):.3f} |", flush=True)

    taken, full = costs(model, args.rounds), model.sizes[-1]
    print(f"\nOne picture, {torch.get_num_threads()} threads, median of {args.rounds} interleaved rounds; the backward")
    print("pass is to the editable weights. Share: of the full picture's forward, or forward and backward.\n")
    print("| size | forward | share | forward and backward | share |\n|---|---|---|---|---|")
    for size, times in taken.items():
        cells = []
        for kind in (0, 1):
            shares = [mine[kind] / whole[kind] for mine, whole in zip(times, taken[full], strict=True)]
            share = statistics.median(shares)
            cells.append(f"{statistics.median(row[kind] for row in times) * 1000:.0f} ms | 1/{1 / share:.1f}")
        print(f"| {size} px | {' | '.join(cells)} |")
    sheet(model, range(first, first + 4), SHEET)
    print(f"\n![Full pictures above the heads', at 128 and at 256 px](../docs/{SHEET.name})")


if __name__ == "__main__":
    main()
