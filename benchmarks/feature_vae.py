"""Erasing a feature from VAEs, heavy digits by a ruler and glasses by the judge: `python -m benchmarks.feature_vae`.

Digits: a sample is heavy when its ink, the mean of the picture, is among the top tenth of 2,000 samples; the ruler both
labels and judges, and cannot be wrong. Faces: the second attribute net labels and the judge counts, at the threshold at
which it sees glasses as often as the labels do. On these blurred faces the two nets often disagree, so what the
labelling net itself still sees stands beside it, marked as not independent.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn

from engine.attributes import NAMES, attribute_net
from engine.core.events import result
from engine.core.targets import Labels
from engine.delta import compose
from engine.evaluation.independence import check_judge
from engine.evaluation.shares import Share, removed
from engine.generators import bases
from engine.methods.ascent import Ascent
from engine.methods.feature import Feature
from engine.requests import labelled_codes

Judge = Callable[[torch.Tensor], torch.Tensor]  # pictures to bool
FRESH = 1_000_000


@torch.no_grad()
def drawn(model: nn.Module, seeds: range) -> torch.Tensor:
    return torch.cat([model.synth(model.map(model.sample_z(part.tolist()))) for part in torch.tensor(seeds).split(50)])


def ink(pictures: torch.Tensor) -> torch.Tensor:
    return pictures.mean((1, 2, 3))


def heavy_digits():
    base = bases["digits-vae"].load().eval().requires_grad_(False)
    gate = ink(drawn(base, range(50_000, 52_000))).quantile(0.9)
    return "digits-vae: heavy strokes", base, {"the ruler": lambda pictures: ink(pictures) > gate}


def glasses_on_faces():
    base, column = bases["faces-vae"].load().eval().requires_grad_(False), NAMES.index("glasses")
    labeller, judge = (attribute_net(name) for name in ("second", "judge"))
    some = drawn(base, range(50_000, 52_000)).split(100)
    with torch.no_grad():
        share = torch.cat([labeller.sees(part)[:, column] for part in some]).double().mean().item()
        gate = torch.cat([judge.logits(part)[:, column] for part in some]).quantile(1 - share)
    judges = {"the labelling net": lambda x: labeller.sees(x)[:, column]}
    judges["the judge"] = lambda x: judge.logits(x)[:, column] > gate
    return "faces-vae: glasses", base, judges


@torch.no_grad()
def counted(judge: Judge, pictures: torch.Tensor) -> torch.Tensor:
    return torch.cat([judge(part) for part in pictures.split(100)])


def measure(title: str, base: nn.Module, judges: dict[str, Judge], labels: int, seeds: int) -> None:
    """The first of the judges labels; where it also counts, that is said."""
    labeller = next(iter(judges))
    has = counted(judges[labeller], drawn(base, range(labels)))
    target = Labels(title.split(": ")[1], *(tuple((has == side).nonzero()[:, 0].tolist()) for side in (True, False)))
    fresh = range(FRESH, FRESH + seeds)
    old = drawn(base, fresh)
    for method, knobs in (("ours", Feature()), ("published", Feature(**PUBLISHED)), ("naive", Ascent())):
        started = time.perf_counter()
        after = compose(base, result(knobs.run(base, labelled_codes(base, target)))).eval()
        spent, new = time.perf_counter() - started, drawn(after, fresh)
        for name, judge in judges.items():
            before, shows = counted(judge, old), counted(judge, new)
            shares = Share(int(before.sum()), seeds), Share(int(shows.sum()), seeds)
            moved = (new - old)[~before].abs().mean().item() / 2
            was, now = (share.plain() for share in shares)
            gone = f"{100 * removed(*shares):.1f}" if was["count"] else "-"
            cells = f"{was['share']:.1f} | {now['share']:.2f} ({now['low']:.2f} to {now['high']:.2f}) | {gone}"
            who = told(name, labeller)
            print(f"| {title} | {method} | {who} | {cells} | {100 * moved:.2f} | {spent:.0f} |", flush=True)


def told(judge: str, labeller: str) -> str:
    """Who counts, and whether they also labelled."""
    return f"{judge} (not independent)" if check_judge(judge, {"labelled": labeller}, override=True) else judge


PUBLISHED = {**Feature.presets["As published"], "steps": 150}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=2000)
    args = parser.parse_args()
    print(f"## Features of VAEs\n\n{args.labels} labels, {args.seeds} fresh samples.\n")
    print("| what | method | counted by | before % | after % (95 %) | removed % | others' pixels moved, % | s |")
    print("|---|---|---|---|---|---|---|---|")
    for part in (heavy_digits, glasses_on_faces):
        measure(*part(), args.labels, args.seeds)


if __name__ == "__main__":
    main()
