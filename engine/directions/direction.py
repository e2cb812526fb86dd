"""Score, gate, landing value and edit: s(z) = w·(z - centre); a flagged z moves along d to the landing value."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Direction:
    """One feature. `score` is w (length 1), `shift` is d with w·d = 1 (but for the printed formula)."""

    name: str
    score: Tensor  # [D]
    shift: Tensor  # [D]
    centre: Tensor  # [D]
    gate: float
    land: float
    sigma: float  # standard deviation of the score over random codes
    auc: float  # cross-validated, on samples drawn at random
    cosine: float  # expected agreement with the true direction

    def scores(self, codes: Tensor) -> Tensor:
        """Signed: how far each code lies towards the feature."""
        return (codes - self.centre) @ self.score

    def to(self, device) -> "Direction":
        moved = {name: getattr(self, name).to(device) for name in ("score", "shift", "centre")}
        return Direction(**(self.__dict__ | moved))


def edit(w: Tensor, directions: Sequence[Direction]) -> tuple[Tensor, Tensor]:
    """Moves flagged codes off every feature they show, all shifts at once; gives the codes and which were flagged.

    w is [n, rows, D]; the first row is scored and every row moves alike. An unflagged code comes back bit for bit.
    """
    moved, any_flag = w, torch.zeros(len(w), dtype=torch.bool, device=w.device)
    for direction in directions:
        s = direction.scores(w[:, 0])
        flagged = s >= direction.gate
        step = (s - direction.land)[:, None, None] * direction.shift
        moved = torch.where(flagged[:, None, None], moved - step, moved)
        any_flag |= flagged
    return moved, any_flag
