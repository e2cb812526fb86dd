"""A few steps of retraining on a few pictures: how many until it is back, also where nothing was retrained?"""

import copy
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from engine.audit import attacks
from engine.audit.aim import BATCH, Aim, looked
from engine.audit.attack import Attack, random_codes
from engine.audit.finding import Side
from engine.audit.neighbours import around
from engine.core.events import Done, Progress, Task
from engine.delta import editable
from engine.evaluation.shares import Share
from engine.models import to_pixels
from engine.msssim import structure_distance

RATE = 5e-4  # Adam's
BACK = 0.5  # of the base's share
LOOKS = 4  # in the course of the retraining


@dataclass(frozen=True)
class Lesson:
    """Codes that must show it, the pictures to be drawn there, and codes that must not."""

    having: Tensor
    pictures: Tensor
    lacking: Tensor


@attacks.register("relearning")
@dataclass(frozen=True)
class Relearning(Attack):
    """Teaches the model the lost pictures at their codes, and to draw other codes as it does. What counts are pairs of
    codes that no step has seen, one that should show it and does, one that should not and does not: a model that
    learns to show it everywhere has not found it again. The base needs no step: it shows what there was to lose."""

    name: ClassVar[str] = "relearning"
    title: ClassVar[str] = "A few steps of retraining"
    place: ClassVar[int] = 8

    def words(self, aim: Aim) -> tuple[str, str]:
        taught = "the person's picture" if aim.kind == "face" else f"half of the pictures that show {aim.words}"
        tried = (
            f"retrain the weights to draw {taught} again, then count pairs of codes that no step has seen of which the "
            "one shows it and the other does not, as they should; a model that never knew it learns it too, but later"
        )
        return tried, f"at most {self.budget.retraining} steps; the base needs none"

    def missing(self, base: nn.Module, aim: Aim) -> str:
        few = aim.kind == "feature" and min(len(aim.codes), len(aim.others)) < 4
        return "fewer than 4 samples are labelled on one side" if few else ""

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        taught, unseen = self.lessons(base, aim)
        side, step = pairs(model, unseen, aim), 0
        if model is base:
            yield Done(replace(side, steps=0))
            return
        goal = max(BACK * pairs(base, unseen, aim).outcome.count, 1)
        student, random = copy.deepcopy(model), self.random()
        optimiser = torch.optim.Adam(editable(student), lr=RATE, fused=True)
        with torch.no_grad():
            same = torch.cat([aim.show(model, some) for some in taught.lacking.split(BATCH)])
        codes, pictures = torch.cat([taught.having, taught.lacking]), torch.cat([taught.pictures, same])
        while step < self.budget.retraining and side.outcome.count < goal:
            step += 1
            halves = ((0, len(taught.having)), (len(taught.having), len(codes)))
            some = torch.cat([torch.randint(*half, (BATCH // 2,), generator=random) for half in halves])
            shown = aim.show(student, codes[some])
            loss = (shown - pictures[some]).abs().mean() + structure_distance(shown, pictures[some]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if step % max(1, self.budget.retraining // LOOKS) == 0 or step == self.budget.retraining:
                side = pairs(student, unseen, aim)
            if (yield Progress(step, self.budget.retraining, note="retraining")):
                break
        yield Done(replace(side, steps=step) if side.outcome.count >= goal else side)

    def lessons(self, base: nn.Module, aim: Aim) -> tuple[Lesson, Lesson]:
        """What is taught, and what is only looked at."""
        if aim.kind == "face":
            count = 2 * self.budget.tries
            near = around(base, aim.codes, count + 1, self.random())[1:]
            others = random_codes(base, self.budget.seeds(2 * count), aim)
            return Lesson(aim.codes, aim.pictures, others[:count]), Lesson(near, near[:0], others[count:])
        count = min(len(aim.codes) // 2, len(aim.others) // 2, 2 * self.budget.tries)
        first = Lesson(aim.codes[:count], aim.pictures[:count], aim.others[:count])
        return first, Lesson(aim.codes[-count:], aim.pictures[-count:], aim.others[-count:])


def pairs(model: nn.Module, lesson: Lesson, aim: Aim) -> Side:
    pictures, having = looked(model, lesson.having, aim)
    lacking = looked(model, lesson.lacking, aim)[1]
    right = (having > aim.bar) & (lacking <= aim.bar)
    best = to_pixels(pictures[having.argmax()][None])[0]
    return Side(Share(int(right.sum()), len(right)), best, having.mean().item())
