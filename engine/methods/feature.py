"""Feature unlearning (Moon, Cho and Kim, AAAI 2024), corrected and extended: a labelled feature is no longer drawn.

    L = α (L_unlearn + L_percep) + L_recon
    L_recon   = |g(z) - f(z)|₁                     where z does not show the feature
    L_unlearn = |g(z) - f(ẑ)|₁                     where it does; ẑ is z moved off the feature
    L_percep  = 1 - MS-SSIM(g(z), f(ẑ))

Ours finds the feature by a probe on the frozen network's inner map, moves every sample only as far as the probe asks,
brings back what that took along of protected attributes, and compares inner maps as well. The change can be kept to
where the feature is, and codes can be taught where an attacker would look. "As published" is the printed recipe.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from engine import device as devices
from engine import memory
from engine.core.errors import Stopped, UserError
from engine.core.events import Done, Progress, Snapshot, Task, watch
from engine.core.knobs import check, knob
from engine.core.protocols import Generator
from engine.data import Request
from engine.delta import Card, Delta, compose, editable
from engine.directions.balance import balanced
from engine.directions.find import MOVES, THRESHOLDS, unprotected
from engine.directions.fits import FITS
from engine.directions.labelled import features_of
from engine.directions.lessons import Goals, Lessons
from engine.directions.sight import Eye, Seen, Sight, shrunk
from engine.directions.study import Search, prepare_lessons, study
from engine.evaluation.feature import check_feature
from engine.methods import methods
from engine.models import to_pixels
from engine.msssim import structure_distance
from engine.resume import capture, resume

WARM_UP = 10  # steps
IN_A_ROW = 3  # checks that must meet the goal
FRESH = 4  # of the young average's weights: the larger, the sooner what is untrained fades
RARE = 1 / 6  # of the samples: what fewer show has a smaller goal in proportion, or it would be met at once
SETTLE = 130  # steps after that, half of a run at most, in which what else has moved comes back
FIRST_LOOK = Search.scaled_by  # samples that the first lessons are made of
FIRST_STEPS = 60  # that these teach, before all are looked at
CHANGED_SHARE = 3 / 8  # of a batch: what is to be kept is the larger part, for what is learnt spreads to it
LEFT, DRIFT = "feature left %", "image drift"
CHANGED = 0.5  # what the inner map of a sample to change weighs, against that of one to keep
ATTACKED = 32  # codes that an attacker moves, anew after every snapshot
LONGEST = 5.0  # of the gradient: two or three times what is usual
SHOWN = {"with": 4, "without": 2}  # live pairs
LOOKED_AT = 48  # held-out samples of each kind at a check
LIGHTEST, HEAVIEST = 0.01, 100.0  # of the weight of forgetting
FIRMER = 1.01  # times the weight of forgetting for every step while too much is left; where not, it falls as fast
FEWEST = 12  # of a rare feature fewer are held out: none left of three says little, so taught ones are looked at, too


@methods.register("feature")
@dataclass(frozen=True)
class Feature:
    """Forget a feature, given samples with and without it. `extra` may add further features and ones to protect."""

    accepts: ClassVar[type] = Generator
    title: ClassVar[str] = "Erase a feature you labelled"
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "Quick": {"steps": 60, "samples": 400, "checked": 100},
        "Balanced": {},
        "Thorough": {"steps": 600, "samples": 4000, "batch": 24, "checked": 2000},
        "Only where it is": {"local": True, "alpha": 4.0, "firmer": 1.0, "give_back": 0},  # the rest changes less
        "Hard to bring back": {"attacks": 0.2, "local": True, "alpha": 4.0, "firmer": 1.0},  # changes more of the rest
        "As published": {
            "direction": "mean",
            "threshold": "pooled",
            "move": "printed",
            "even": False,
            "alpha": 1.0,
            "firmer": 1.0,
            "lr": 1e-4,
            "steps": 1000,
            "keep_structure": 0.0,
            "inner": 0.0,
            "smooth": 0.0,
        },
    }

    steps: int = knob(320, "optimiser steps at most", min=1, max=20_000)
    goal: float = knob(0.5, "stops early when this % of samples still shows it, or less if it is rare", min=0, max=50)
    batch: int = knob(16, "samples per step", min=2, max=256)
    lr: float = knob(4e-4, "Adam learning rate", min=1e-6, max=1e-1)
    alpha: float = knob(2.0, "weight of forgetting against keeping, at first", min=LIGHTEST, max=HEAVIEST)
    firmer: float = knob(
        3.0, "times as much while more is left than the goal, at most; as much less where not", min=1, advanced=True
    )
    direction: str = knob("probe", "how the feature is found in latent space", choices=("probe", *FITS))
    samples: int = knob(2400, "random samples that are looked at and taught", min=40, max=20_000)
    recall: float = knob(0.95, "share of labelled samples with the feature that must be caught", min=0.5, max=1)
    move: str = knob("halfway", "along what a sample is moved off the feature", choices=MOVES, advanced=True)
    deeper: float = knob(0.0, "land this many standard deviations below the mean", min=-3, max=3, advanced=True)
    threshold: str = knob("random", "where the gate comes from", choices=THRESHOLDS, advanced=True)
    give_back: int = knob(2, "rounds of giving back what else was lost, at the end", min=0, max=5, advanced=True)
    attacks: float = knob(0.0, "share of a batch where an attacker would look for it", min=0, max=0.9, advanced=True)
    local: bool = knob(False, "change a sample only in the part of the picture that shows the feature", advanced=True)
    even: bool = knob(True, "a fixed share of a batch is to change, however rare the feature is", advanced=True)
    keep_structure: float = knob(1.0, "weight of MS-SSIM in keeping", min=0, max=10, advanced=True)
    inner: float = knob(1.0, "weight of the inner map, which late layers draw from", min=0, max=10, advanced=True)
    smooth: float = knob(0.95, "averaging of the weights over steps", min=0, max=0.999, advanced=True)
    size: int = knob(0, "side of the pictures compared; 0 is the smallest the model makes", min=0, advanced=True)
    checked: int = knob(200, "random samples the check looks at", min=8, max=5000)
    any_judge: bool = knob(False, "a network that labelled may judge; the result says so", advanced=True)
    check_every: int = knob(20, "steps between two looks at held-out samples", min=1, max=1000, advanced=True)
    snapshot_every: int = knob(40, "steps between two snapshots", min=1, max=1000, advanced=True)
    seed: int = knob(0, "seed of every random draw", min=0)

    def __post_init__(self) -> None:
        check(self)

    @memory.kept_while_running
    def run(self, base: nn.Module, request: Request, snapshot: Mapping[str, Tensor] | None = None) -> Task:
        student = copy.deepcopy(base)
        optimiser = torch.optim.Adam(editable(student), lr=self.lr, fused=True)
        random = torch.Generator().manual_seed(self.seed)
        smoothed = copy.deepcopy(student)
        step = self._resume(snapshot, student, optimiser, random, smoothed) if snapshot else 0
        eye = Eye(self.size or base.sizes[0], devices.quick_type(base.w_avg.device), self.steps)
        labelled = {"with": request.forget.w, "without": request.retain.w}
        yield Progress(step, self.steps, images=pairs(eye, base, smoothed, labelled), note="finding the feature")
        now = replace(self, alpha=float(snapshot["alpha"])) if snapshot and "alpha" in snapshot else self
        found, lessons, last, streak, scalars = None, None, self.steps, 0, {}
        while step < last:
            wanted = self.looked_at(step if found else 0)  # a resumed run looks twice as well, and learns the same
            if found is None or found.drawn < wanted:
                search, looking = replace(self.search, samples=wanted), replace(eye, at=step)
                try:
                    found = yield from study(base, request, search, looking, found)
                    lessons, held_out = yield from prepare_lessons(base, found, search, looking, lessons)
                except Stopped:
                    if not step:
                        raise
                    break  # there is something to keep already
                if found.drawn < self.looked_at(step):
                    continue
                watcher = Watcher(base, eye, found.sights, held_out, lessons, found.share)
                scalars, streak, last = watcher.check(smoothed), 0, self.steps  # few samples do not end a run
                enough = self.goal * min(1.0, found.share / RARE)
            if lessons.attacked is None or step % self.snapshot_every == 0:
                lessons = yield from self.attacked(base, student, lessons, found.sights, step)
            step += 1
            losses = now.step(student, optimiser, lessons, eye, random, step, last)
            _average(smoothed, student, share_of_newest(step, self.smooth))
            images = {}
            if step % self.check_every == 0 or step == last:
                scalars = watcher.check(smoothed)
                now = replace(now, alpha=self.weight_after(now.alpha, too_much=scalars[LEFT] > enough))
                streak = streak + 1 if scalars[LEFT] <= enough else 0
                if streak == IN_A_ROW:
                    last = min(last, step + self.settle)
                images = watcher.pairs(smoothed)
            if step % self.snapshot_every == 0 and step < self.steps:
                state = {"alpha": torch.tensor(now.alpha, dtype=torch.double)} | _weights(smoothed)
                yield Snapshot(step, capture(student, optimiser, random, step) | state)
            if (yield Progress(step, self.steps, losses | scalars, images)):
                break
        else:
            if found:
                smoothed = yield from balanced(smoothed, found, replace(eye, at=step), self.give_back)
        told = scalars | ({"auc": found.sights[0].auc} if found else {})
        card = Card.draft(self, request.label, steps_done=step, **told)
        yield Done((Delta.between(base, smoothed, card),))

    def check(self, before: nn.Module, deltas: Sequence[Delta], request: Request) -> Task:
        """What is left and what else changed on fresh samples, by judges that had no part in it where there are any."""
        psi = float(request.extra.get("psi", torch.tensor(1.0)))
        features, kept = features_of(request)
        after, erased = compose(before, deltas).eval(), [one.name for one in features]
        how = {"psi": psi, "seeds": self.checked, "roles": request.roles, "any_judge": self.any_judge}
        verdict = yield from watch(check_feature(before, after, erased, **how))
        warned = unprotected(before.latent, request.label, kept)
        yield Done(verdict | {name: verdict[name] + warned for name in ("words", "caveats")})

    def looked_at(self, step: int) -> int:
        """How many random samples the lessons are made of after so many steps: few at first, so that it begins soon."""
        return self.samples if step >= FIRST_STEPS or self.steps <= FIRST_STEPS else min(FIRST_LOOK, self.samples)

    def weight_after(self, alpha: float, *, too_much: bool) -> float:
        """The weight of forgetting after a check: as a multiplier of the constraint that no more than the goal is left,
        it grows while that does not hold and falls again where it does, so that no more else moves than is needed."""
        factor = FIRMER**self.check_every
        changed = alpha * factor if too_much else alpha / factor
        low, high = max(LIGHTEST, self.alpha / self.firmer), min(HEAVIEST, self.alpha * self.firmer)
        return min(max(changed, low), high)

    @property
    def settle(self) -> int:
        return max(1, min(SETTLE, self.steps // 2))

    @property
    def search(self) -> Search:
        """How the feature is looked for."""
        return Search(
            fit=self.direction,
            threshold=self.threshold,
            move=self.move,
            recall=self.recall,
            deeper=self.deeper,
            samples=self.samples,
            scaled_by=FIRST_LOOK,
            attacked=self.attacks > 0,
            local=self.local,
            seed=self.seed,
        )

    def step(
        self,
        student: nn.Module,
        optimiser: torch.optim.Optimizer,
        lessons: Lessons,
        eye: Eye,
        random: torch.Generator,
        step: int,
        last: int,
    ) -> dict[str, float]:
        """One step of the optimiser; gives the losses before it."""
        for group in optimiser.param_groups:  # warm up, then fall to a twentieth; faster where the end is near
            fall = 0.525 + 0.475 * math.cos(math.pi * step / self.steps)
            group["lr"] = self.lr * min(1.0, step / WARM_UP) * min(fall, max(0.05, (last - step) / self.settle))
        codes, goal, forget = self.draw(lessons, random)
        inner, picture = eye.pictures(student, codes)
        pixels, weighed = distance(picture, goal.pictures), forget if not self.keep_structure else slice(None)
        structure = torch.zeros_like(pixels)  # MS-SSIM costs a tenth of a step: not where it weighs nothing
        structure[weighed] = structure_distance(picture[weighed], goal.pictures[weighed])
        if self.inner:
            wanted, weight = goal.maps.float(), self.inner * torch.where(forget, CHANGED, 1.0)
            pixels = pixels + weight * distance(shrunk(inner), wanted) / wanted.abs().mean((1, 2, 3))
        unlearn, percep = pixels[forget].sum() / len(codes), structure[forget].sum() / len(codes)
        recon = (pixels + self.keep_structure * structure)[~forget].sum() / len(codes)
        loss = self.alpha * (unlearn + percep) + recon
        if not loss.isfinite():
            raise UserError(f"training broke off at step {step}: the loss is {loss.item()}; lower lr={self.lr:g}")
        optimiser.zero_grad()
        loss.backward()
        weights = [p for group in optimiser.param_groups for p in group["params"] if p.grad is not None]
        length = nn.utils.get_total_norm([p.grad for p in weights])
        if length > LONGEST:  # else nothing is to be passed over
            nn.utils.clip_grads_with_norm_(weights, LONGEST, length)
        optimiser.step()
        return {"unlearn": unlearn.item(), "percep": percep.item(), "recon": recon.item()}

    def draw(self, lessons: Lessons, random: torch.Generator) -> Goals:
        if not self.even:
            return lessons.draw_mixed(self.batch, random)
        attacked = round(self.attacks * self.batch) if lessons.attacked and len(lessons.attacked.codes) else 0
        erased = max(1, round(CHANGED_SHARE * (self.batch - attacked)))
        return lessons.draw((self.batch - attacked - erased, erased, attacked), random)

    def attacked(
        self, base: nn.Module, student: nn.Module, lessons: Lessons, sights: Sequence[Sight], step: int
    ) -> Task:
        """The lessons with codes where an attacker finds the feature in the student as it is now. They depend on the
        step alone, so that a resumed run meets the same ones."""
        if not self.attacks or lessons.attacker is None:
            return lessons
        random = torch.Generator().manual_seed(self.seed + step)
        near = lessons.keep.of(torch.randperm(len(lessons.keep.codes), generator=random)[:ATTACKED])
        found = yield from lessons.attacker.lessons(base, student, near, sights, random, step)
        return replace(lessons, attacked=found)

    @staticmethod
    def _resume(snapshot, student, optimiser, random, smoothed) -> int:
        smoothed.load_state_dict(smoothed.state_dict() | averaged_weights(snapshot))
        return resume(snapshot, student, optimiser, random)


@dataclass(frozen=True)
class Watcher:
    """Looks at held-out samples: what is left of the feature by the labels' own probe, and what else has changed."""

    base: nn.Module
    eye: Eye
    sights: list[Sight]
    held_out: Lessons
    lessons: Lessons  # stands in where too little is held out
    share: float

    def check(self, student: nn.Module) -> dict[str, float]:
        """% of random samples that still show a feature, and the mean change of the others' pixels."""
        erase, keep = (self._part(kind) for kind in ("erase", "keep"))
        seen = self.eye.look(student, erase.codes)
        shows = torch.stack([sight.flags(seen.looks) for sight in self.sights]).any(0)
        with torch.no_grad():
            clean = self.eye.pictures(student, keep.codes)[1]
        if clean.var() < keep.pictures.var() / 2:
            raise UserError("training has collapsed: the pictures lost half of their contrast; lower lr or alpha")
        drift = (clean - keep.pictures).abs().mean()
        return {LEFT: 100 * self.share * shows.float().mean().item(), DRIFT: drift.item()}

    def pairs(self, student: nn.Module) -> dict[str, np.ndarray]:
        """Held-out samples, before and now."""
        sides = {"with": self._part("erase").codes, "without": self._part("keep").codes}
        return pairs(self.eye, self.base, student, sides)

    def _part(self, kind: str) -> Seen:
        held_out, taught = (getattr(part, kind) for part in (self.held_out, self.lessons))
        if len(held_out.codes) >= FEWEST:
            return _evenly(held_out, LOOKED_AT)
        return Seen.join([held_out, _evenly(taught, LOOKED_AT - len(held_out.codes))])


def _evenly(seen: Seen, count: int) -> Seen:
    """So many, evenly, since kept ones are in an order."""
    apart = max(1, len(seen.codes) // count)
    return seen.of(slice(0, apart * count, apart))


@torch.no_grad()
def pairs(eye: Eye, base: nn.Module, student: nn.Module, codes: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """The first samples with the feature and without it, before and now."""
    images = {}
    for side, count in SHOWN.items():
        for when, model in (("before", base), ("after", student)):
            drawn = to_pixels(eye.pictures(model, codes[side][:count])[1])
            images |= {f"{when}-{side}-{number}": picture for number, picture in enumerate(drawn, 1)}
    return images


def distance(x: Tensor, y: Tensor) -> Tensor:
    """L1 of each sample."""
    return (x - y).abs().mean((1, 2, 3))


def share_of_newest(step: int, smooth: float) -> float:
    """What the weights of this step are of their average. While that is young, a step counts by about its third power:
    with all steps alike, the untrained first ones would stay in it for twenty more."""
    return max(1 - smooth, FRESH / (step + FRESH - 1))


@torch.no_grad()
def _average(smoothed: nn.Module, student: nn.Module, weight: float) -> None:
    for mean, value in zip(smoothed.parameters(), student.parameters(), strict=True):
        if value.requires_grad:
            mean.lerp_(value, weight)


def _weights(smoothed: nn.Module) -> dict[str, Tensor]:
    return {f"smooth.{n}": p.detach().cpu().clone() for n, p in smoothed.named_parameters() if p.requires_grad}


def averaged_weights(snapshot: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `_weights` put into a snapshot."""
    return {name.removeprefix("smooth."): value for name, value in snapshot.items() if name.startswith("smooth.")}
