"""From labels to a Direction: fit the score, set gate and landing value, shape the edit, keep other features out."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.directions.direction import Direction
from engine.directions.fits import FITS, area_under_curve, expected_cosine, held_out_scores
from engine.directions.labelled import Labelled
from engine.directions.space import Space

THRESHOLDS = ("random", "pooled", "midpoint")
POWERS = {"covariance": 1.0, "halfway": 0.5, "straight": 0.0}  # of Sigma: how far a move leans with the cloud
MOVES = (*POWERS, "printed")
INSEPARABLE = 0.9  # cosine above which two features cannot be told apart


def find(
    labelled: Labelled,
    space: Space,
    *,
    fit: str = "logistic",
    threshold: str = "random",
    move: str = "covariance",
    recall: float = 0.9,
    deeper: float = 0.0,
    tested: bool = True,
) -> Direction:
    """The direction of one feature.

    threshold "random": the gate lets `recall` of the cross-validated samples with the feature through, and codes land
    on the mean of random codes (or `deeper` standard deviations below it). "pooled" and "midpoint" are the two
    readings of the paper. move "printed" is the paper's formula as it stands, whose vector is not of length 1. What is
    only kept need not be `tested`: nothing is cross-validated, and gate, landing value and AUC are not numbers.
    """
    raw = FITS[fit](labelled, space)
    if not raw.norm() > 0:
        raise UserError(f"the samples with and without “{labelled.name}” have the same mean; check the labels")
    score = raw / raw.norm()
    sigma, random, gate, land, auc = space.sigma(score), labelled.random, math.nan, math.nan, math.nan
    if tested:
        held_out, how = held_out_scores(random, space, FITS[fit]), {"recall": recall, "deeper": deeper * sigma}
        gate, land = thresholds(threshold, labelled, space, score, held_out=held_out, **how)
        auc = area_under_curve(held_out, random.truth)
    shift = raw if move == "printed" else _along(score, space, POWERS[move])
    return Direction(
        labelled.name,
        score,
        shift,
        space.centre,
        gate,
        land,
        sigma,
        auc=auc,
        cosine=expected_cosine(len(labelled.having), len(labelled.lacking), space.effective_dimension),
    )


def find_all(
    features: Sequence[Labelled], keep: Sequence[Labelled], space: Space, *, protect: bool = True, **how
) -> list[Direction]:
    """Several features at once: each edit leaves the scores of all others, and of what must be kept, as they are."""
    found = [find(feature, space, **how) for feature in features]
    if not protect or how.get("move") == "printed":
        return found
    kept = [find(feature, space, tested=False, **how) for feature in keep]
    return apart(found, kept, space, how.get("move", "covariance"))


def apart(found: Sequence[Direction], kept: Sequence[Direction], space: Space, move: str) -> list[Direction]:
    """The same features, each edit protected from all the other scores."""
    return [protect_from(one, [*(other for other in found if other is not one), *kept], space, move) for one in found]


def moving(found: Sequence[Direction], kept: Sequence[Direction], space: Space, move: str) -> list[Direction]:
    """The same features moved another way; nothing is fitted again."""
    turned = [replace(one, shift=_along(one.score, space, POWERS[move])) for one in found]
    return apart(turned, kept, space, move)


def protect_from(
    direction: Direction, others: Sequence[Direction], space: Space, move: str = "covariance"
) -> Direction:
    """The shortest edit (in the move's own metric) that moves this score by one and every other score by nothing."""
    if not others:
        return direction
    wanted = torch.stack([direction.score, *(other.score for other in others)]).double()  # [k, D]
    spread = torch.stack([space.spread(v, POWERS[move]) for v in wanted.to(space.codes)]).double()
    gram = wanted @ spread.T
    lengths = gram.diagonal().sqrt()
    for other, cosine in zip(others, (gram[0] / (lengths[0] * lengths))[1:].tolist(), strict=True):
        if abs(cosine) > INSEPARABLE:
            raise UserError(
                f"“{direction.name}” and “{other.name}” point the same way (cosine {cosine:.2f}, limit {INSEPARABLE}): "
                f"this model cannot change one and keep the other; take “{other.name}” off the list, or label more"
            )
    first = torch.zeros(len(wanted), 1, dtype=torch.double, device=gram.device)
    first[0] = 1
    shift = spread.T @ torch.linalg.solve(gram, first)
    return replace(direction, shift=shift[:, 0].to(direction.shift))


def _along(score: Tensor, space: Space, power: float) -> Tensor:
    """d = Sigma^p w / (w' Sigma^p w), so that w·d = 1; with p = 1 it stays where codes are drawn."""
    spread = space.spread(score, power)
    spread[space.coarse :] = 0
    return spread / (score @ spread)


def thresholds(
    how: str, labelled: Labelled, space: Space, score: Tensor, *, held_out: Tensor, recall: float, deeper: float
) -> tuple[float, float]:
    """Gate and landing value. Neither ever sees an actively chosen sample: those crowd beside the boundary."""
    random = labelled.random
    if how == "random":
        having = held_out[random.truth > 0]
        gate = torch.quantile(having, 1 - recall).item() * space.sigma(score)
        land = min(((space.codes - space.centre) @ score).mean().item(), gate) - deeper
        return gate, land
    s = (random.codes - space.centre) @ score
    with_it, without = s[random.truth > 0].mean(), s[random.truth == 0].mean()
    t = (s.mean() if how == "pooled" else (with_it + without) / 2).item()
    return t, t


def unprotected(latent: str, feature: str, kept: Sequence[object]) -> list[str]:
    """What a user should know who protects nothing where there is only z: features lean on each other there."""
    if latent != "z" or kept:
        return []
    return [
        f"Nothing is protected. This model has no codes but z, where features overlap, so what often comes with "
        f"“{feature}” will change with it. Label what must stay, and protect it."
    ]


def warnings(direction: Direction, share: float) -> list[str]:
    """What a user should know before training, in sentences."""
    said = []
    if direction.auc < 0.75:
        said.append(
            f"The labels do not separate: a held-out sample with “{direction.name}” outscores one without in only "
            f"{100 * direction.auc:.0f} % of cases (75 % is the least that helps). Check the labels or label more."
        )
    if direction.cosine < 0.6:
        said.append(
            f"So few labels fix the direction only roughly (expected agreement {direction.cosine:.2f}, 0.6 is fair). "
            "Label more samples."
        )
    if share > 0.5:
        said.append(f"{100 * share:.0f} % of all samples would change; label more, or raise the gate.")
    return said
