"""A linear probe on the inner map: does the model still know inside what it does not show?"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.audit import attacks
from engine.audit.aim import BATCH, Aim
from engine.audit.attack import Attack, random_codes
from engine.audit.finding import Figure, Side
from engine.audit.neighbours import around
from engine.core.events import Done, Progress, Task
from engine.directions.fits import area_under_curve, held_out_scores, logistic
from engine.directions.labelled import Labelled
from engine.directions.regression import logistic_regression
from engine.directions.sight import CELLS
from engine.directions.space import Space
from engine.evaluation.shares import Z

LEAST = 5  # labels of each side


@attacks.register("probe")
@dataclass(frozen=True)
class Probe(Attack):
    """Area under the curve, 0.5 for chance. For a feature a fresh probe is taught on each model's own inner map of the
    labelled samples, and always asked about samples it was not taught. A face differs from others in its code already,
    so that every fresh probe would tell it: there the probe is taught on the base and asked about the other model."""

    name: ClassVar[str] = "probe"
    title: ClassVar[str] = "Linear probe inside"
    place: ClassVar[int] = 7

    def words(self, aim: Aim) -> tuple[str, str]:
        if aim.kind == "face":
            tried = "teach a linear probe on the base's inner map who is near this person, and ask it of either model"
            return tried, f"{2 * self._count} codes near the person and {2 * self._count} others, half to teach"
        tried = f"teach a linear probe on each model's own inner map to tell samples with {aim.words} from others"
        return tried, f"{len(aim.codes)} samples with and {len(aim.others)} without, five folds"

    def missing(self, base: nn.Module, aim: Aim) -> str:
        few = aim.kind == "feature" and min(len(aim.codes), len(aim.others)) < LEAST
        return f"fewer than {LEAST} samples are labelled on one side" if few else ""

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        yield Progress(0, 1, note="probing the inner map")
        if aim.kind == "feature":
            looks, p = inner(model, torch.cat([aim.codes, aim.others])), len(aim.codes)
            looks = (looks - looks.mean(0)) / (looks.std(0) + 1e-6)
            labelled = Labelled.of(aim.words, looks[:p], looks[p:])
            scores = held_out_scores(labelled, Space.of(labelled.codes, ball=True), logistic)
            yield Done(Side(figure(scores, labelled.truth)))
            return
        near = around(base, aim.codes, 2 * self._count, self.random())
        codes = torch.cat([near, random_codes(base, self.budget.seeds(2 * self._count), aim)])
        truth = torch.arange(len(codes), device=codes.device).lt(len(near)).double()
        taught = torch.arange(len(codes), device=codes.device) % 2 == 0
        known = inner(base, codes[taught])
        mean, std = known.mean(0), known.std(0) + 1e-6
        weight, offset = logistic_regression((known - mean) / std, truth[taught])
        asked = (inner(model, codes[~taught]) - mean) / std
        yield Done(Side(figure(asked @ weight + offset, truth[~taught])))

    @property
    def _count(self) -> int:
        return max(8, 2 * self.budget.tries)


@torch.no_grad()
def inner(model: nn.Module, codes: Tensor) -> Tensor:
    """The inner map in cells, [n, F]."""
    parts = []
    for some in codes.split(BATCH):
        features = model.render(some, size=model.sizes[0])[0].float()
        parts.append(F.adaptive_avg_pool2d(features, CELLS).flatten(1))
    return torch.cat(parts)


def figure(scores: Tensor, truth: Tensor) -> Figure:
    """The area under the curve with the interval of Hanley and McNeil; a perfect one is not taken for certain."""
    area, p, n = area_under_curve(scores, truth), int((truth > 0).sum()), int((truth == 0).sum())
    a = min(max(area, 1 / (p + n)), 1 - 1 / (p + n))
    q1, q2 = a / (2 - a), 2 * a * a / (1 + a)
    error = Z * math.sqrt(max(a * (1 - a) + (p - 1) * (q1 - a * a) + (n - 1) * (q2 - a * a), 0) / (p * n))
    return Figure(area, max(0.0, min(area, a) - error), min(1.0, max(area, a) + error), chance=0.5)
