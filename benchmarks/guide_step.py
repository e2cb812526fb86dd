"""GUIDE, ours against a loop as published, on the same weights, codes and threads: `python -m benchmarks.guide_step`.

A step: in every round both take one on the same codes, in turn, each in a process of its own; ratios are within a
round. Ours has looked at the frozen side of these codes before, as it does once for each code of its bank, and keeps
its memory between steps, as a run does. Memory: the peak that a process of its own
reaches in three steps, less what it holds before them. To the same result: seconds until a person is a stranger to
recogniser B, and what random faces keep by then, for several people, both ways in turn.
"""

import argparse
import copy
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, nullcontext
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import torch
from torch import nn

from benchmarks.guide_reference import PublishedStep
from benchmarks.memory import alone, peak
from benchmarks.stylegan2 import CONFIG as STYLEGAN2
from benchmarks.tables import spread
from engine import device as devices
from engine import memory
from engine.core.events import result
from engine.data import LatentBatch, Request
from engine.delta import compose, editable
from engine.generators import architectures, bases
from engine.identity.judge import Judge, scale_of
from engine.identity.targets import draw
from engine.methods.guide import Draws, Guide, sensible_size
from engine.redirect import Latents

RENDERING = {"superresolution_module": "training.superresolution.SuperresolutionHybrid2X", "sr_antialias": True}
RENDERING |= {"c_gen_conditioning_zero": False, "c_scale": 1.0, "superresolution_noise_mode": "none"}
RENDERING |= {"depth_resolution": 24, "depth_resolution_importance": 24, "ray_start": 2.25, "ray_end": 3.3}
RENDERING |= {"box_warp": 1, "avg_camera_radius": 2.7, "avg_camera_pivot": [0, 0, 0.2], "clamp_mode": "softplus"}
RENDERING |= {"disparity_space_sampling": False, "decoder_lr_mul": 1.0}
EG3D = {"z_dim": 512, "c_dim": 25, "w_dim": 512, "img_resolution": 128, "img_channels": 3, "channel_base": 8192}
EG3D |= {"channel_max": 128, "plane_resolution": 128, "neural_rendering_resolution": 64, "rendering_kwargs": RENDERING}
KNOBS = {"start": "base", "lr": 2e-4, "neighbours": 2, "others": 2, "mixed": 0.0}
BANK = 16
FORMS = (".0f", ".1f", ".2f", ".2f")
PERSON = 500  # and those after it
SETTLED = 0.1  # s after which threads that wait have stopped to spin


def ffhq() -> nn.Module:
    return bases["ffhq"].load().eval().requires_grad_(False)


def stylegan2() -> nn.Module:
    torch.manual_seed(0)
    return architectures["stylegan2"](**STYLEGAN2).eval().requires_grad_(False)


def eg3d() -> nn.Module:
    torch.manual_seed(0)
    return architectures["eg3d"](**EG3D).eval().requires_grad_(False)


MODELS: dict[str, Callable[[], nn.Module]] = {"ffhq": ffhq, "StyleGAN2 256 px": stylegan2, "a small EG3D": eg3d}
USUAL = tuple(MODELS)
OURS = "ffhq, published loop on our network"  # so that the loop is seen apart from the network
WHOLE = "ffhq, published at 1024 px"  # the network as published has no preview to stop at
MODELS |= {OURS: ffhq, WHOLE: ffhq}


class Bench:
    """One student each for the two ways, and the codes of every step."""

    def __init__(self, model: str, bank: int = BANK, dtype: torch.dtype = torch.float32, person: int = PERSON) -> None:
        self.base, self.knobs = MODELS[model](), Guide(**KNOBS, steps=1, bank=bank)
        people, latents = self.base.map(self.base.sample_z([person])), Latents.of(self.base, draws=1000)
        targets = self.knobs.targets(self.base, latents, people)
        self.draws = Draws(self.knobs, self.base, latents, people, targets, dtype)
        size = sensible_size(self.base)
        made = self.base.size if model == WHOLE else size
        self.published = PublishedStep(self.knobs, self.base, size, made, by_ours=model == OURS)
        self.students = {way: copy.deepcopy(self.base) for way in ("ours", "published")}
        self.optimisers = {
            way: torch.optim.Adam(editable(one), lr=self.knobs.lr, fused=way == "ours")
            for way, one in self.students.items()
        }

    def losses(self, way: str, seed: int) -> Iterator[torch.Tensor]:
        """The parts of a step's loss, each to go backward through when it comes."""
        random = torch.Generator().manual_seed(seed)
        if way == "ours":
            for losses in self.knobs.losses(self.students[way], self.draws, random):
                yield sum(losses.values())
        else:
            yaw = self.knobs.yaw(self.base, random)
            _, here, there = self.draws.step(random)
            yield self.published.loss(self.students[way], len(self.draws.people), here, there, yaw)

    def keep_views(self, seeds: Sequence[int]) -> float:
        """Seconds for each view of the frozen side that these steps ask for and that is not kept yet."""
        started, before = time.perf_counter(), self.draws.frozen.count
        with torch.no_grad():
            for seed in seeds:
                random = torch.Generator().manual_seed(seed)
                yaw, near = self.knobs.yaw(self.base, random), len(self.draws.people) + self.knobs.neighbours
                keys, _, there = self.draws.step(random)
                self.draws.frozen.views(keys[:near], there[:near], yaw)
                self.draws.frozen.views(keys[near:], there[near:], yaw, glance=True)
        return (time.perf_counter() - started) / max(1, self.draws.frozen.count - before)

    def step(self, way: str, seed: int) -> float:
        """Seconds."""
        started = time.perf_counter()
        self.optimisers[way].zero_grad()
        for loss in self.losses(way, seed):
            loss.backward()
        self.optimisers[way].step()
        return time.perf_counter() - started


class Process:
    """One way in a process of its own; ours keeps its memory, as a run does."""

    def __init__(self, *described: Any) -> None:
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, described)

    def tell(self, what: Callable[..., Any], *given: Any) -> Any:
        """What a function of this module gives there, once the threads of the other process have gone to sleep."""
        time.sleep(SETTLED)
        return self.pool.submit(what, *given).result()


_lasting = ExitStack()  # as long as the process


def _begin(model: str, way: str, dtype: torch.dtype) -> None:
    global _bench, _way
    _bench, _way = Bench(model, dtype=dtype), way
    if way == "ours":
        _lasting.enter_context(memory.kept())


def _first_loss() -> float:
    with torch.no_grad():
        return sum(loss.item() for loss in _bench.losses(_way, 0))


def _get_ready(rounds: int) -> float:
    """Takes a first step, looks at all that is looked at once, and gives the seconds for each such view."""
    _bench.step(_way, 0)
    return _bench.keep_views(range(1, rounds + 1)) if _way == "ours" else 0.0


def _step(seed: int) -> float:
    return _bench.step(_way, seed)


def speed(model: str, rounds: int, dtype: torch.dtype = torch.float32) -> str:
    ways = {way: Process(model, way, dtype) for way in ("published", "ours")}
    first = {way: one.tell(_first_loss) for way, one in ways.items()}
    view = {way: one.tell(_get_ready, rounds) for way, one in ways.items()}["ours"]
    taken = [{way: one.tell(_step, seed) for way, one in ways.items()} for seed in range(1, rounds + 1)]
    for one in ways.values():
        one.pool.shutdown()
    ratios = [row["published"] / row["ours"] for row in taken]
    seconds = {way: statistics.median(row[way] for row in taken) for way in ways}
    losses = f"{first['ours']:.4f} | {abs(first['ours'] - first['published']):.1e}"
    title = model if dtype == torch.float32 else f"{model}, our gradients in {str(dtype).removeprefix('torch.')}"
    cells = [title, f"{seconds['published']:.2f}", f"{seconds['ours']:.2f}", spread(ratios), f"{view:.2f}", losses]
    return f"| {' | '.join(cells)} |"


def peak_of_steps(model: str, way: str) -> float:
    bench = Bench(model, dtype=devices.quick_type(torch.device("cpu")))
    with memory.kept() if way == "ours" else nullcontext():
        return peak(lambda: [bench.step(way, seed) for seed in range(3)])


def memory_row(model: str) -> str:
    found = {way: alone(peak_of_steps, model, way) for way in ("published", "ours")}
    return f"| {model} | {found['published']:.0f} | {found['ours']:.0f} | {found['ours'] / found['published']:.2f} |"


class Way(NamedTuple):
    """How long one took until the person was a stranger, and what is left by then."""

    steps: int
    seconds: float
    left: float
    kept: float


def until_a_stranger(people: int, faces: int, most: int) -> list[str]:
    base = ffhq()
    judge, others = Judge(scale_of(base)), draw(base, faces, torch.Generator().manual_seed(7))
    goal, found = judge.scale.quantile(0.75), {"ours, as the product does it": [], "as published": []}
    for number in range(PERSON, PERSON + people):
        person = base.map(base.sample_z([number]))
        look = partial(told, judge, base, person, others)
        ways = as_the_product_does(base, person, look), as_published(number, look, goal, most)
        for row, way in zip(found.values(), ways, strict=True):
            row.append(way)
    ours, published = found.values()
    ratios = [theirs.seconds / mine.seconds for mine, theirs in zip(ours, published, strict=True)]
    lines = []
    for name, ways in found.items():
        columns = zip(zip(*ways, strict=True), FORMS, strict=True)
        lines.append(f"| {name} | {' | '.join(spread(column, form) for column, form in columns)} |")
    strangers = f"A stranger is at most {goal:.2f} alike (75th percentile)"
    reached = f"{sum(way.left <= goal for way in published)} of {people} became one by the published steps"
    return [*lines, "", f"Ratio {spread(ratios, '.0f')}. {strangers}; {reached}."]


def as_the_product_does(base: nn.Module, person: torch.Tensor, look: Callable[[nn.Module], list[float]]) -> Way:
    started = time.perf_counter()
    deltas = result(Guide().run(base, Request(LatentBatch(person, "a test"), "a test")))
    return Way(0, time.perf_counter() - started, *look(compose(base, deltas).eval()))


def as_published(number: int, look: Callable[[nn.Module], list[float]], goal: float, most: int) -> Way:
    """As its code has it, looked at every fifth step; looks are not counted."""
    bench, steps, taken = Bench("ffhq", bank=0, person=number), 0, 0.0
    while steps < most:
        for _ in range(5):
            taken += bench.step("published", steps)
            steps += 1
        left, kept = look(bench.students["published"])
        print(f"step {steps}: left {left:.2f}, kept {kept:.2f}", file=sys.stderr, flush=True)
        if left <= goal:
            break
    return Way(steps, taken, left, kept)


@torch.no_grad()
def told(judge: Judge, base: nn.Module, person: torch.Tensor, others: torch.Tensor, model: nn.Module) -> list[float]:
    """The likeness that is left of the person, and the one that random faces keep."""
    size = sensible_size(base)
    figures = []
    for codes in (person, others):
        pairs = [judge.compare(base.synth(part, size=size), model.synth(part, size=size)).b for part in codes.split(8)]
        figures.append(torch.cat(pairs).mean().item())
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=USUAL)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--people", type=int, default=3, help="who are erased until they are strangers")
    parser.add_argument("--faces", type=int, default=32, help="random faces whose retention is measured")
    parser.add_argument("--most", type=int, default=30, help="published steps at most")
    args = parser.parse_args()
    print("## GUIDE: a step, its memory, and the way to the same result\n")
    print(f"One person, two neighbours, two random faces; {torch.get_num_threads()} threads, float32 unless said.")
    print("Where our gradients are in bfloat16, everything that is shown and compared is in float32.\n")
    print("| model | published, s | ours, s | times as fast (spread) | a kept view, s | first loss | differs by |")
    print("|---|---|---|---|---|---|---|")
    quick = devices.quick_type(torch.device("cpu"))
    for model in args.models:
        for dtype in dict.fromkeys((torch.float32, quick)) if model == "ffhq" else (quick,):
            print(speed(model, args.rounds, dtype), flush=True)
    print("\n| model | published, MB | ours, MB | share |\n|---|---|---|---|")
    for model in args.models:
        print(memory_row(model), flush=True)
    print(f"\n| until a person is a stranger, {args.people} people | steps | s | likeness left | random faces keep |")
    print("|---|---|---|---|---|")
    for line in until_a_stranger(args.people, args.faces, args.most):
        print(line, flush=True)


if __name__ == "__main__":
    main()
