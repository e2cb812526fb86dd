"""Feature unlearning, ours against a plain loop on the same weights and codes: `python -m benchmarks.feature_step`.

A step: in every round all take one on the same codes, in turn; ratios are within a round. Ours keeps the pictures of
the frozen side, which the loop makes anew. First losses are those of students that have learnt nothing yet, on several
batches, since how far rounded numbers are off depends on the batch. Memory: the peak that a process of its own reaches
in three steps, less what it holds before them. To the same result: seconds until a tenth of the held-out samples that
showed glasses still do. Both are looked at with the same probe, on the same samples, after every few steps; these looks
are not counted, everything that ours itself looks at beforehand is.
"""

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.feature import label
from benchmarks.feature_reference import PlainStep
from benchmarks.memory import alone, peak
from benchmarks.tables import spread
from engine import device as devices
from engine import memory
from engine.core.events import Snapshot
from engine.core.targets import Labels
from engine.delta import editable
from engine.directions.find import find_all
from engine.directions.labelled import features_of
from engine.directions.lessons import Lessons
from engine.directions.sight import Eye
from engine.directions.study import Study, prepare_lessons, study
from engine.generators import bases
from engine.methods.feature import DRIFT, LEFT, Feature, Watcher, averaged_weights
from engine.requests import labelled_codes

PRINTED = Feature(**Feature.presets["As published"])
BATCH = {"ffhq": 8, "faces64": 48, "faces-vae": 48}  # 4 to 8 at 1024 px, 48 to 64 for small models
FEW = 24  # labels of each side, enough to time a step
EVERY = 5  # steps between two looks at what is left
GOAL = 0.1  # of the share that showed the feature
BATCHES = 16  # whose first losses are compared
PLAIN, OURS, QUICK, WHOLE = "plain", "ours", "ours, bfloat16", "plain, whole picture"
WHOLE_ROUNDS = 2  # of whole pictures, which take a hundred times as long as ours
TOLD = {LEFT: ".1f", DRIFT: ".3f"}
Step = Callable[[int], float]  # on the codes of a seed; gives the loss before it


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
    """The ways to take a step: ours in both precisions, the plain loop at the preview's size and at the whole one."""

    def __init__(self, base: nn.Module, knobs: Feature, target: Labels) -> None:
        self.base, self.knobs, self.target, self.size = base, knobs, target, base.sizes[0]
        self.eye = Eye(self.size)
        self.found, self.lessons, self.held_out = self.seen_by(self.eye)
        self.quick = replace(self.eye, dtype=devices.quick_type(base.w_avg.device))
        self.ways: dict[str, Callable[[], Step]] = {  # each call makes a student of its own
            PLAIN: lambda: self.plainly(self.size),
            OURS: lambda: self.ours(self.eye, self.lessons),
        }
        if base.size != self.size:
            self.ways[WHOLE] = lambda: self.plainly(base.size)
        if self.quick != self.eye:
            self.ways[QUICK] = lambda: self.ours(self.quick, self.quick_lessons)

    @cached_property
    def quick_lessons(self) -> Lessons:
        return self.seen_by(self.quick)[1]

    def seen_by(self, eye: Eye) -> tuple[Study, Lessons, Lessons]:
        found = finished(study(self.base, labelled_codes(self.base, self.target), self.knobs.search, eye))
        return found, *finished(prepare_lessons(self.base, found, self.knobs.search, eye))

    def seeds(self, number: int) -> list[int]:
        """Of batches with samples of both kinds: where nothing is to forget, every way's first loss is 0."""
        good = []
        for seed in count():
            forget = self.knobs.draw(self.lessons, torch.Generator().manual_seed(seed))[2]
            if forget.any() and not forget.all():
                good.append(seed)
            if len(good) == number:
                return good

    def student(self, *, is_ours: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
        student = copy.deepcopy(self.base)
        return student, torch.optim.Adam(editable(student), lr=self.knobs.lr, fused=is_ours)

    def ours(self, eye: Eye, lessons: Lessons) -> Step:
        student, optimiser = self.student(is_ours=True)

        def step(seed: int) -> float:
            random = torch.Generator().manual_seed(seed)
            parts = self.knobs.step(student, optimiser, lessons, eye, random, 1, self.knobs.steps)
            return self.knobs.alpha * (parts["unlearn"] + parts["percep"]) + parts["recon"]

        return step

    def plainly(self, made: int) -> Step:
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

    def first_losses(self, way: str, seeds: Sequence[int]) -> list[float]:
        return [self.ways[way]()(seed) for seed in seeds]


def bench_of(model: str, batch: int) -> Bench:
    base = load(model)
    return Bench(base, replace(PRINTED, samples=2 * FEW, batch=batch), any_feature(base))


def seconds(step: Step, seed: int) -> float:
    started = time.perf_counter()
    step(seed)
    return time.perf_counter() - started


def speed(model: str, batch: int, rounds: int) -> None:
    bench = bench_of(model, batch)
    seeds = bench.seeds(max(BATCHES, rounds))
    same = [way for way in bench.ways if way != WHOLE]  # which compares other pictures
    losses = {way: bench.first_losses(way, seeds[:BATCHES]) for way in same}
    steps = {way: make() for way, make in bench.ways.items()}
    for step in steps.values():
        step(seeds[0])
    taken = []
    for number, seed in enumerate(seeds[:rounds]):
        ways = steps if number < WHOLE_ROUNDS else same
        taken.append({way: seconds(steps[way], seed) for way in ways})
    for way in steps:
        rows = [row for row in taken if way in row]
        ratios = [row[PLAIN] / row[way] for row in rows]
        cells = [f"{model}: {way}", f"{statistics.median(row[way] for row in rows):.2f}", spread(ratios)]
        if way in same:
            off = [abs(one - plain) for one, plain in zip(losses[way], losses[PLAIN], strict=True)]
            cells += [f"{losses[way][0]:.4f}", f"{statistics.median(off):.1e}", f"{max(off):.1e}"]
        else:
            cells += ["–"] * 3
        print(f"| {' | '.join(cells)} |", flush=True)


def peak_of_steps(model: str, batch: int, way: str) -> float:
    """Ours as a run has it, which gives nothing back to the system meanwhile."""
    bench = bench_of(model, batch)
    seeds, step = bench.seeds(3), bench.ways[way]()
    with nullcontext() if way == PLAIN else memory.kept():
        return peak(lambda: [step(seed) for seed in seeds])


def memory_row(model: str, batch: int) -> str:
    quick = OURS if devices.quick_type(torch.device("cpu")) == torch.float32 else QUICK
    plain, ours = (alone(peak_of_steps, model, batch, way) for way in (PLAIN, quick))
    return f"| {model} | {plain:.0f} | {ours:.0f} | {ours / plain:.2f} |"


class Way(NamedTuple):
    """How long one took to the same result, and what the last look saw."""

    steps: int
    seconds: float
    told: dict[str, float]


def until_gone(labels: int, most: int, runs: int) -> list[str]:
    """Published: the printed recipe in the plain loop, at the preview's size, at the learning rate of its preset and at
    ours. Ours: as the product does it. A run is one of each, in turn, with a seed of its own."""
    base = load("ffhq")
    target, found, shares = label(base, labels)[0]["glasses"], [], []
    for seed in range(runs):
        knobs = Feature(snapshot_every=EVERY, seed=seed)
        judged = Bench(base, knobs, target)
        watcher = Watcher(base, judged.eye, judged.found.sights, judged.held_out, judged.lessons, judged.found.share)
        share = watcher.check(base)[LEFT]
        ours = ours_until(base, knobs, target, watcher, GOAL * share)
        rates = {"its own": PRINTED.lr, "our": knobs.lr}
        plain = {
            f"the plain loop at {whose} learning rate": plainly_until(judged, watcher, rate, GOAL * share, most)
            for whose, rate in rates.items()
        }
        found.append({OURS: ours} | plain)
        shares.append(share)
    lines = []
    for name in found[0]:
        ways = [row[name] for row in found]
        has_arrived = all(way.told[LEFT] <= GOAL * share for way, share in zip(ways, shares, strict=True))
        ratio = spread([row[name].seconds / row[OURS].seconds for row in found])
        cells = [name, spread([way.steps for way in ways], ".0f"), spread([way.seconds for way in ways], ".0f")]
        cells += [ratio if has_arrived else f"at least {ratio}"]
        cells += [f"{statistics.median(way.told[what] for way in ways):{form}}" for what, form in TOLD.items()]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", f"{labels} labels, {runs} runs; at first {spread(shares, '.1f')} % showed glasses."]


def ours_until(base: nn.Module, knobs: Feature, target: Labels, watcher: Watcher, goal: float) -> Way:
    """What it has learnt so far is read from its snapshots; to make them is counted."""
    taken, started, shown = 0.0, time.perf_counter(), copy.deepcopy(base)
    for event in knobs.run(base, labelled_codes(base, target)):
        if isinstance(event, Snapshot):
            taken += time.perf_counter() - started
            shown.load_state_dict(shown.state_dict() | averaged_weights(event.tensors))
            scalars = watcher.check(shown)
            print(f"ours, step {event.step}: {scalars}", file=sys.stderr, flush=True)
            if scalars[LEFT] <= goal:
                return Way(event.step, taken, scalars)
            started = time.perf_counter()
    raise RuntimeError(f"ours took all of its {knobs.steps} steps and left {scalars[LEFT]:.1f} %, more than {goal:.1f}")


def plainly_until(judged: Bench, watcher: Watcher, rate: float, goal: float, most: int) -> Way:
    base, random = judged.base, torch.Generator().manual_seed(judged.knobs.seed)
    space, (features, keep) = judged.found.space, features_of(labelled_codes(base, judged.target))
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
    return Way(steps, taken, scalars)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=BATCH, default=list(BATCH))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, help="of every model, instead of a batch that fits each")
    parser.add_argument("--labels", type=int, default=240)
    parser.add_argument("--runs", type=int, default=3, help="to the same result; 0 leaves this part out")
    parser.add_argument("--most", type=int, default=120, help="steps of the plain loop at most")
    args = parser.parse_args()
    print("## Feature unlearning: a step, its memory, and the way to the same result\n")
    batches = {model: args.batch or BATCH[model] for model in args.models}
    told = ", ".join(f"{batch} on {model}" for model, batch in batches.items())
    rule = "" if args.batch else " (4 to 8 at 1024 px, 48 to 64 for small models)"
    print(f"The printed recipe in batches of {told}{rule}; {torch.get_num_threads()} threads.")
    print("Ratios are to the plain loop.\n")
    print(
        f"Losses are of the first step, off the plain loop's by so much on {BATCHES} batches: next to nothing in single"
    )
    print("precision; pictures in bfloat16, as the product learns from them, are rounded.\n")
    print("| step | s | times as fast as the plain loop (spread) | first loss | differs by, median | at most |")
    print("|---|---|---|---|---|---|")
    for model, batch in batches.items():
        speed(model, batch, args.rounds)
    print("\n| peak of a step | plain, MB | ours, MB | share |\n|---|---|---|---|")
    for model, batch in batches.items():
        print(memory_row(model, batch), flush=True)
    if args.runs:
        print(
            f"\n| until at most {GOAL:.0%} of it is left | steps | s | times as long as ours | left % | image drift |"
        )
        print("|---|---|---|---|---|---|")
        for line in until_gone(args.labels, args.most, args.runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
