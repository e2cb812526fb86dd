"""Score directions from labelled codes, and how far they can be trusted."""

import math
from collections.abc import Callable
from statistics import NormalDist

import torch
from torch import Tensor

from engine.directions.labelled import Labelled
from engine.directions.regression import logistic_regression
from engine.directions.space import Space

FOLDS = 5
Fit = Callable[[Labelled, Space], Tensor]  # gives a direction of any length


def mean_difference(labelled: Labelled, space: Space) -> Tensor:
    """The paper's target vector z_e (Radford et al. 2015)."""
    return _only_coarse(labelled.having.mean(0) - labelled.lacking.mean(0), space)


def logistic(labelled: Labelled, space: Space) -> Tensor:
    """The normal of an L2-penalised, class-balanced logistic regression."""
    weight, _ = logistic_regression(standardised(labelled.codes, space), labelled.truth)
    return _only_coarse(torch.nn.functional.pad(weight, (0, len(space.centre) - space.coarse)), space)


FITS: dict[str, Fit] = {"logistic": logistic, "mean": mean_difference}


def standardised(codes: Tensor, space: Space) -> Tensor:
    """Searched coordinates, centred, in units of the cloud's mean spread, so that a penalty means the same anywhere."""
    return ((codes - space.centre) / space.scale)[:, : space.coarse]


def held_out_scores(labelled: Labelled, space: Space, fit: Fit) -> Tensor:
    """A score for every sample from a fold that did not see it, in standard deviations of random codes.

    The unit makes folds comparable: their directions differ, and in W so does the spread along them.
    """
    scores = labelled.codes.new_full((len(labelled.codes),), math.nan)
    for inside in folds(labelled):
        direction = fit(part(labelled, ~inside), space)
        scores[inside] = (labelled.codes[inside] - space.centre) @ direction / space.sigma(direction)
    return scores


def folds(labelled: Labelled) -> list[Tensor]:
    """Stratified: each fold holds the same share of both sides. Fixed, so that a threshold is a fact of the labels."""
    sizes = (len(labelled.having), len(labelled.lacking))
    count = min(FOLDS, *sizes)
    random = torch.Generator().manual_seed(0)
    fold = torch.cat([torch.randperm(size, generator=random) % count for size in sizes]).to(labelled.codes.device)
    return [fold == k for k in range(count)] if count > 1 else []


def part(labelled: Labelled, keep: Tensor) -> Labelled:
    p = len(labelled.having)
    return Labelled.of(labelled.name, labelled.having[keep[:p]], labelled.lacking[keep[p:]])


def area_under_curve(scores: Tensor, truth: Tensor) -> float:
    """How often a sample with the feature outscores one without; ties count half."""
    having, lacking = scores[truth > 0], scores[truth == 0]
    above = (having[:, None] > lacking[None]).double() + 0.5 * (having[:, None] == lacking[None]).double()
    return above.mean().item() if above.numel() else math.nan


def expected_cosine(having: int, lacking: int, dimension: float) -> float:
    """What the mean difference of so many samples has in common with the true direction (spec 2.2)."""
    share = having / (having + lacking)
    gap = NormalDist().pdf(NormalDist().inv_cdf(share)) / (share * (1 - share))  # delta, of a linear feature
    return gap / math.sqrt(gap**2 + dimension * (1 / having + 1 / lacking))


def _only_coarse(direction: Tensor, space: Space) -> Tensor:
    direction = direction.clone()
    direction[space.coarse :] = 0
    return direction
