"""Feature unlearning, ours against a plain loop on the same weights and codes: `python -m benchmarks.feature_step`.

A step: in every round all take one on the same codes, in turn; ratios are within a round. Ours keeps the pictures of
the frozen side, which the loop makes anew. To the same result: seconds until a tenth of the held-out samples that
showed glasses still do, by the probe of our run, with everything that ours looks at beforehand counted.
"""

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import count
from typing import Any

import torch
from torch import nn

from benchmarks.feature import label
from benchmarks.feature_reference import PlainStep
from engine import device as devices
from engine.core.events import Progress
from engine.core.targets import Labels
from engine.delta import editable
from engine.directions.find import find_all
from engine.directions.labelled import features_of
from engine.directions.lessons import Lessons
from engine.directions.sight import Eye
from engine.directions.study import Study, prepare_lessons, study
from engine.generators import bases
from engine.methods.feature import DRIFT, LEFT, Feature, Watcher
from engine.requests import labelled_codes

PRINTED = Feature(**Feature.presets["As published"])
MODELS = ("ffhq", "faces64", "faces-vae")
FEW = 24  # labels of each side, enough to time a step
EVERY = 5  # steps between two looks at what is left
GOAL = 0.1  # of the share that showed the feature


def load(name: str) -> nn.Module:
    return bases[name].load().eval().requires_grad_(False)


def finished(task: Generator) -> Any:
    """What a task gives in the end; its progress is not shown."""
    try:
        while True:
            next(task)
    except StopIteration as end:
        return end.value


def any_feature(base: nn.Module) -> Labels:
    """Seeds by their first coordinate in latent space: a step takes as long, whatever it erases."""
    order = base.map(base.sample_z(range(2 * FEW)))[:, 0, 0].argsort().tolist()
    return Labels("any", tuple(order[FEW:]), tuple(order[:FEW]))


class Bench:
    """A student each for ours in both precisions and for the plain loop, at the preview's size and at the whole one."""

    def __init__(self, base: nn.Module, knobs: Feature, target: Labels) -> None:
        self.base, self.knobs, self.target, self.size = base, knobs, target, base.sizes[0]
        self.eye = Eye(self.size)
        self.found, self.lessons, self.held_out = self.seen_by(self.eye)
        self.ways: dict[str, Callable[[int], float]] = {
            "plain": self.plainly(self.size),
            "ours": self.ours(self.eye, self.lessons),
        }
        if base.size != self.size:
            self.ways["plain, whole picture"] = self.plainly(base.size)
        quick = devices.quick_type(base.w_avg.device)
        if quick != torch.float32:
            eye = replace(self.eye, dtype=quick)
            self.ways["ours, bfloat16"] = self.ours(eye, self.seen_by(eye)[1])

    def seen_by(self, eye: Eye) -> tuple[Study, Lessons, Lessons]:
        found = finished(study(self.base, labelled_codes(self.base, self.target), self.knobs.search, eye))
        return found, *finished(prepare_lessons(self.base, found, self.knobs.search, eye))

    def first_seed(self) -> int:
        """Of a batch with samples of both kinds: where nothing is to forget, every way's first loss is 0."""
        for seed in count():
            forget = self.knobs.draw(self.lessons, torch.Generator().manual_seed(seed))[2]
            if forget.any() and not forget.all():
                return seed

    def student(self, *, is_ours: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
        student = copy.deepcopy(self.base)
        return student, torch.optim.Adam(editable(student), lr=self.knobs.lr, fused=is_ours)

    def ours(self, eye: Eye, lessons: Lessons) -> Callable[[int], float]:
        """A step on the codes of a seed, which gives its loss."""
        student, optimiser = self.student(is_ours=True)

        def step(seed: int) -> float:
            random = torch.Generator().manual_seed(seed)
            parts = self.knobs.step(student, optimiser, lessons, eye, random, 1, self.knobs.steps)
            return self.knobs.alpha * (parts["unlearn"] + parts["percep"]) + parts["recon"]

        return step

    def plainly(self, made: int) -> Callable[[int], float]:
        """The same of the plain loop."""
        student, optimiser = self.student(is_ours=False)
        plain = PlainStep(self.knobs, self.base, self.found.directions, self.size, made)

        def step(seed: int) -> float:
            codes = self.knobs.draw(self.lessons, torch.Generator().manual_seed(seed))[0]
            loss = plain.loss(student, codes)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            return loss.item()

        return step


def seconds(step: Callable[[int], float], seed: int) -> float:
    started = time.perf_counter()
    step(seed)
    return time.perf_counter() - started


def speed(model: str, batch: int, rounds: int) -> None:
    base = load(model)
    bench = Bench(base, replace(PRINTED, samples=2 * FEW, batch=batch), any_feature(base))
    begin = bench.first_seed()
    first = {way: step(begin) for way, step in bench.ways.items()}
    seeds = range(begin + 1, begin + 1 + rounds)
    taken = [{way: seconds(step, seed) for way, step in bench.ways.items()} for seed in seeds]
    for way in bench.ways:
        ratios = [row["plain"] / row[way] for row in taken]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        losses = f"{first[way]:.4f} | {abs(first[way] - first['plain']):.1e}"
        cells = f"{statistics.median(row[way] for row in taken):.2f} | {spread} | {losses}"
        print(f"| {model}: {way} | {cells} |", flush=True)


def until_gone(labels: int, most: int) -> list[str]:
    """Published: the printed recipe in the plain loop, at the preview's size, at the learning rate of its preset and at
    ours. Ours: as the product does it."""
    base = load("ffhq")
    target, rows = label(base, labels)[0]["glasses"], []
    knobs = Feature(check_every=EVERY)
    started, share = time.perf_counter(), None
    for event in knobs.run(base, labelled_codes(base, target)):
        if isinstance(event, Progress) and LEFT in event.scalars:
            share = share or event.scalars[LEFT]
            if event.step and event.scalars[LEFT] <= GOAL * share:
                break
    rows.append((f"ours, {event.step} steps", time.perf_counter() - started, event.scalars))
    judged = Bench(base, knobs, target)
    watcher = Watcher(base, judged.eye, judged.found.sights, judged.held_out, judged.lessons, judged.found.share)
    for whose, rate in (("its own", PRINTED.lr), ("our", knobs.lr)):
        steps, spent, scalars = plainly_until(judged, watcher, target, rate, GOAL * share, most)
        rows.append((f"the plain loop at {whose} learning rate, {steps} steps", spent, scalars))
    lines = [f"| {name} | {spent:.0f} | {told[LEFT]:.1f} | {told[DRIFT]:.3f} |" for name, spent, told in rows]
    ratios = [
        f"{'' if told[LEFT] <= GOAL * share else 'at least '}{spent / rows[0][1]:.1f}" for _, spent, told in rows[1:]
    ]
    return [*lines, "", f"Ratios {' and '.join(ratios)}; at first {share:.1f} % showed glasses."]


def plainly_until(
    judged: Bench, watcher: Watcher, target: Labels, rate: float, goal: float, most: int
) -> tuple[int, float, dict[str, float]]:
    """Steps and seconds of the plain loop, looks at held-out samples not counted, and what the last look saw."""
    base, random = judged.base, torch.Generator().manual_seed(judged.knobs.seed)
    space, (features, keep) = judged.found.space, features_of(labelled_codes(base, target))
    directions = find_all(features, keep, space, fit=PRINTED.direction, **PRINTED.search.how)
    plain = PlainStep(PRINTED, base, directions, judged.size, judged.size)
    student = copy.deepcopy(base)
    optimiser = torch.optim.Adam(editable(student), lr=rate)
    steps, taken, scalars = 0, 0.0, {}
    while steps < most:
        steps += 1
        started = time.perf_counter()
        codes = space.codes[torch.randint(len(space.codes), (judged.knobs.batch,), generator=random)]
        optimiser.zero_grad()
        plain.loss(student, codes).backward()
        optimiser.step()
        taken += time.perf_counter() - started
        if steps % EVERY == 0:
            scalars = watcher.check(student)
            print(f"plain, step {steps}: {scalars}", file=sys.stderr, flush=True)
            if scalars[LEFT] <= goal:
                break
    return steps, taken, scalars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--labels", type=int, default=240)
    parser.add_argument("--most", type=int, default=60, help="steps of the plain loop at most; 0 leaves this part out")
    args = parser.parse_args()
    print("## Feature unlearning: a step, and the way to the same result\n")
    print(f"Batch {args.batch}, the printed recipe; {torch.get_num_threads()} threads. Ratios are to the plain loop.\n")
    print("| step | s | times as fast as the plain loop (spread) | first loss | differs by |\n|---|---|---|---|---|")
    for model in MODELS:
        speed(model, args.batch, args.rounds)
    if args.most:
        print(f"\n| until at most {GOAL:.0%} of it is left | s | feature left % | image drift |\n|---|---|---|---|")
        for line in until_gone(args.labels, args.most):
            print(line, flush=True)


if __name__ == "__main__":
    main()
