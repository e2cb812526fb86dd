"""What to label next: a probe guesses from the labels so far, and is honest about what it does not know."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.directions.fits import held_out_scores, logistic, standardised
from engine.directions.labelled import Labelled
from engine.directions.regression import logistic_regression
from engine.directions.space import Space

PAGE, AT_RANDOM, UNCERTAIN = 10, 2, 2  # of a smart page: thresholds and the shown AUC come from the random ones alone
SURE = 0.9  # probability from which a guess is offered
GOOD, STEADY = 0.9, 0.01  # AUC from which labels are enough, if it changes by less over the last pages
ODD = 1.0  # standard deviations on the wrong side from which a label looks odd


@dataclass(frozen=True)
class Probe:
    """Logistic regression on codes; `guess` is a probability."""

    weight: Tensor
    offset: float
    space: Space

    @classmethod
    def fit(cls, labelled: Labelled, space: Space) -> "Probe":
        weight, offset = logistic_regression(standardised(labelled.codes, space), labelled.truth)
        return cls(weight, offset, space)

    def guess(self, codes: Tensor) -> Tensor:
        return torch.sigmoid(standardised(codes, self.space) @ self.weight + self.offset)


def useful_first(probe: Probe, codes: Tensor) -> list[int]:
    """Indices with the least certain first."""
    return (probe.guess(codes) - 0.5).abs().argsort(stable=True).tolist()


def smart_pages(probe: Probe, codes: Tensor, count: int, seed: int) -> list[tuple[int, bool]]:
    """What to label next from a pool, page after page of ten: (index, was it chosen). Of ten, six look most like the
    feature, two are uncertain and two are drawn at random; shuffled, so that a place on a page tells nothing. The
    random ones are drawn before anything is chosen, and whatever the probe thinks: they stand for all samples."""
    random = torch.Generator().manual_seed(seed)
    pages = -(-count // PAGE)
    at_random = torch.randperm(len(codes), generator=random)[: AT_RANDOM * pages].tolist()
    left = [index for index in useful_first(probe, codes) if index not in set(at_random)]
    uncertain = left[: UNCERTAIN * pages]
    taken = {*at_random, *uncertain}
    top = [index for index in probe.guess(codes).argsort(descending=True).tolist() if index not in taken]
    most, shown = PAGE - AT_RANDOM - UNCERTAIN, []
    for k in range(pages):
        drawn = at_random[AT_RANDOM * k : AT_RANDOM * (k + 1)]
        picked = uncertain[UNCERTAIN * k : UNCERTAIN * (k + 1)] + top[most * k : most * (k + 1)]
        page = [(index, False) for index in drawn] + [(index, True) for index in picked]
        shown += [page[place] for place in torch.randperm(len(page), generator=random).tolist()]
    return shown[:count]


def sure_guesses(probe: Probe, codes: Tensor) -> dict[int, int]:
    """Index to 1 or 0, for what the probe would answer without much doubt."""
    guesses = probe.guess(codes).tolist()
    return {index: int(p > 0.5) for index, p in enumerate(guesses) if max(p, 1 - p) >= SURE}


def odd_labels(labelled: Labelled, space: Space) -> list[int]:
    """Indices (having first) that a probe trained without them would clearly have labelled the other way, worst first.

    Measured from the midpoint of the two held-out means, in standard deviations of random codes.
    """
    scores = held_out_scores(labelled, space, logistic)
    truth = labelled.truth
    middle = (scores[truth > 0].mean() + scores[truth == 0].mean()) / 2
    wrong = (middle - scores) * (2 * truth - 1)
    order = wrong.argsort(descending=True).tolist()
    return [index for index in order if wrong[index] > ODD]


def is_enough(history: list[float]) -> bool:
    """The AUC after each page says when to stop labelling: good, and steady over the last three pages."""
    steady = len(history) >= 4 and max(history[-4:]) - min(history[-4:]) < STEADY
    return bool(history) and history[-1] >= GOOD and steady
