"""What all attacks share: a budget, the same work on either model, and progress over both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from engine.audit.aim import Aim, looked
from engine.audit.finding import Finding, Side
from engine.core.events import Done, Progress, Task, watch
from engine.core.knobs import check, knob
from engine.evaluation.shares import Share
from engine.models import to_pixels

FIRST_SEED = 2_000_000_000  # far from those that pages show, methods draw and checks look at


@dataclass(frozen=True)
class Budget:
    """What every attack may spend, on the base as on the unlearned model."""

    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "Quick": {"tries": 4, "steps": 6, "retraining": 6, "samples": 24},
        "Balanced": {},
        "Thorough": {"tries": 24, "steps": 40, "retraining": 60, "samples": 400},
    }

    tries: int = knob(8, "tries of each attack on each model", min=2, max=200)
    steps: int = knob(12, "optimiser steps of each try", min=1, max=500)
    retraining: int = knob(12, "steps of retraining at most", min=1, max=500)
    samples: int = knob(48, "random samples looked at", min=16, max=5000)
    any_judge: bool = knob(False, "a network that labelled may judge; the report says so", advanced=True)
    seed: int = knob(0, "seed of every random draw", min=0, max=1_000_000)

    def __post_init__(self) -> None:
        check(self)

    def seeds(self, count: int) -> range:
        first = FIRST_SEED + 10_000 * self.seed
        return range(first, first + count)


@dataclass(frozen=True)
class Attack:
    """Subclasses say what they try (`words`), whether they can (`missing`), and try it on one model (`attempt`)."""

    budget: Budget
    name: ClassVar[str]
    title: ClassVar[str]
    place: ClassVar[int]  # in the order of an audit: the plain ones first

    def run(self, before: nn.Module, after: nn.Module, aim: Aim) -> Task:
        """Done holds a Finding."""
        if why := self.missing(before, aim):
            yield Done(self.not_made(aim, why))
            return
        sides = []
        for number, model in enumerate((before, after)):
            sides.append((yield from watch(part(self.attempt(model, before, aim), number, 2))))
        yield Done(Finding(self.name, self.title, *self.words(aim), self.drawn(), *sides))

    def not_made(self, aim: Aim, why: str) -> Finding:
        return Finding(self.name, self.title, *self.words(aim), self.drawn(), skipped=why)

    def words(self, aim: Aim) -> tuple[str, str]:
        """What is tried, and what it may spend on each model."""
        raise NotImplementedError

    def missing(self, base: nn.Module, aim: Aim) -> str:
        """Why it cannot be made here; empty when it can."""
        return ""

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        """Done holds a Side. `base` is the model before, for codes that both sides share."""
        raise NotImplementedError

    def drawn(self) -> str:
        """Which random numbers were used, in words."""
        return f"{self.budget.seeds(1)[0]} and following"

    def random(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.budget.seeds(1)[0])


def part(task: Task, number: int, count: int, note: str = "", total: int = 1000) -> Task:
    """A task as one of `count` equal parts of a longer one of `total` steps. Its pictures stay inside: they may show a
    person."""
    answer = None
    try:
        while True:
            event = task.send(answer)
            if isinstance(event, Progress):
                share = (number + event.step / max(event.total, 1)) / count
                event = Progress(round(total * share), total, note=note or event.note)
            answer = yield event
    except StopIteration:
        return
    finally:
        task.close()


def random_codes(model: nn.Module, seeds: range, aim: Aim) -> Tensor:
    with torch.no_grad():
        return model.map(model.sample_z(seeds), psi=aim.psi)


def judged(model: nn.Module, codes: Tensor, aim: Aim) -> Side:
    """How many of these codes' pictures show it, by the judge."""
    pictures, readings = looked(model, codes, aim)
    best = to_pixels(pictures[readings.argmax()][None])[0]
    return Side(Share(int((readings > aim.bar).sum()), len(readings)), best, readings.mean().item())
