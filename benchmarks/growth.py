"""How time and memory grow with the work: `python -m benchmarks.growth`. Writes docs/growth.png.

GUIDE on a small generator, one thing made larger at a time: steps, the random faces of a step, the pixels of the
picture, and the people erased (as the product erases them, without training); then the steps and the batch of a feature
run, which looks at its samples once, whatever it learns. A point is the least of a few interleaved
rounds, and its memory the peak above what was held before. The exponent is the slope of a straight line through the
logarithms, and that of time is told with its spread over the rounds: work that grows by its own measure has 1. What is
done once, whatever the work, pulls it below, so the slope between the two largest points stands beside it.
"""

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from benchmarks.memory import peak
from benchmarks.tables import spread
from engine.core.events import result
from engine.core.targets import Labels
from engine.data import LatentBatch, Request
from engine.generators import architectures
from engine.methods.feature import Feature
from engine.methods.guide import Guide
from engine.requests import labelled_codes

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "growth.png"
SMALL = {"z_dim": 64, "c_dim": 0, "w_dim": 64, "img_channels": 3, "channel_base": 2048, "channel_max": 64}
USUAL = {"steps": 4, "random faces a step": 2, "pixels": 64 * 64, "people": 1}
USUAL |= {"feature: steps": 8, "feature: samples a step": 4}
ALONG: Mapping[str, tuple[int, ...]] = {
    "steps": (4, 8, 16, 32),
    "random faces a step": (2, 4, 8, 16),
    "pixels": (64 * 64, 128 * 128, 256 * 256),
    "people": (1, 2, 4, 8, 16),
    "feature: steps": (8, 16, 32, 64),
    "feature: samples a step": (4, 8, 16, 32),
}
Point = tuple[str, int]


def generator(side: int) -> nn.Module:
    """Makes its whole picture only, so that the pixels are the work."""
    torch.manual_seed(0)
    model = architectures["stylegan2"](**SMALL, img_resolution=side)
    model.sizes = (side,)
    return model.eval().requires_grad_(False)


@torch.no_grad()
def red(base: nn.Module, count: int = 40) -> Labels:
    """A third of the samples are called red."""
    picture = base.synth(base.map(base.sample_z(range(count))))
    order = (picture[:, 0] - picture[:, 2]).mean((1, 2)).argsort(descending=True).tolist()
    return Labels("red", tuple(order[: count // 3]), tuple(order[count // 3 :]))


def erase(point: Point) -> None:
    """One run with one figure other than usual."""
    values = USUAL | {point[0]: point[1]}
    base = generator(math.isqrt(values["pixels"]))
    if point[0].startswith("feature"):
        knobs = Feature(steps=values["feature: steps"], batch=values["feature: samples a step"], samples=40, goal=0.0)
        result(knobs.run(base, labelled_codes(base, red(base))))
        return
    people = base.map(base.sample_z(range(values["people"])))
    trained = {"start": "base", "steps": values["steps"], "others": values["random faces a step"], "neighbours": 0}
    knobs = Guide(identity_weight=0.0) if point[0] == "people" else Guide(**trained, bank=0, identity_weight=0.0)
    result(knobs.run(base, Request(LatentBatch(people, "a test"), "a test")))


def seconds(point: Point) -> float:
    started = time.perf_counter()
    erase(point)
    return time.perf_counter() - started


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of a straight line through the logarithms, by least squares."""
    x, y = torch.tensor(points, dtype=torch.double).clamp(min=1e-3).log().T
    x, y = x - x.mean(), y - y.mean()
    return ((x @ y) / (x @ x)).item()


def plot(curves: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panes = pyplot.subplots(1, len(curves), figsize=(9, 4))
    for axes, (what, lines) in zip(panes, curves.items(), strict=True):
        for name, points in lines.items():
            (x, y), drawn = points[0], list(zip(*points, strict=True))
            axes.plot([value / x for value in drawn[0]], [value / y for value in drawn[1]], "o-", label=name)
        axes.plot([1, 16], [1, 16], ":", color="grey", label="as the work")
        axes.set(xscale="log", yscale="log", xlabel="times the work", ylabel=f"times the {what}")
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    every = [(name, value) for name, values in ALONG.items() for value in values]
    erase(every[0])  # loads what is loaded once
    rounds = [{point: seconds(point) for point in every} for _ in range(args.rounds)]
    taken = {point: min(one[point] for one in rounds) for point in every}
    needed = {point: peak(lambda point=point: erase(point)) for point in every}
    curves = {
        what: {name: [(value, found[name, value]) for value in values] for name, values in ALONG.items()}
        for what, found in (("time", taken), ("memory", needed))
    }
    print(f"## Growth\n\nA StyleGAN2 of 64 channels, {torch.get_num_threads()} threads, {args.rounds} rounds.\n")
    print(
        "| what grows | from, to | s | exponent of time (spread) | at the end | MB | exponent of memory | at the end |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, values in ALONG.items():
        time_taken, memory = curves["time"][name], curves["memory"][name]
        slopes = [exponent([(value, one[name, value]) for value in values]) for one in rounds]
        cells = [f"{values[0]:,} to {values[-1]:,}", f"{time_taken[0][1]:.2f} to {time_taken[-1][1]:.2f}"]
        cells += [spread(slopes), f"{exponent(time_taken[-2:]):.2f}"]
        cells += [f"{memory[0][1]:.0f} to {memory[-1][1]:.0f}"]
        cells += [f"{exponent(memory):.2f}", f"{exponent(memory[-2:]):.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")
    plot(curves)
    print(f"\n![Time and memory against the work, both by the smallest point](../docs/{PICTURE.name})")


if __name__ == "__main__":
    main()
