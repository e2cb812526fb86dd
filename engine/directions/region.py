"""Where in a picture a feature is: the cells of the inner map that tell best whether it is shown.

The frozen picture of a moved code is without the hat, but the smile is another one, too. Only what a move changed in
the region of the feature is taught; elsewhere a picture is to stay as it was.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.directions.fits import area_under_curve

CELLS = 8  # a side
PENALTY = 30.0  # of the regression, for each channel
WITHIN, BEYOND = 0.03, 0.10  # of the best cell's AUC: the first belongs to the region, the second does not
MOST = 0.5  # of the picture: what is told in more of it is everywhere
TELLS = 0.85  # AUC of the best cell: where that is lower, the feature lies in no cell
CHANCE = 2.0  # standard errors that both are wider by: few samples do not tell where a feature is


def region(having: Tensor, lacking: Tensor) -> Tensor:
    """[s, s], 1 where a feature is and 0 where it is not, from inner maps [n, c, h, w] of samples with it and without.
    A feature that every cell tells alike, as age or the weight of a stroke, is everywhere."""
    side = min(CELLS, having.shape[-1])
    maps = torch.cat([F.adaptive_avg_pool2d(part.float(), side) for part in (having, lacking)])
    x = maps.permute(2, 3, 0, 1).flatten(0, 1).contiguous()  # [cells, n, c]
    x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-3)
    shows = torch.arange(x.shape[1], device=x.device) < len(having)
    wanted = torch.where(shows, 1 / len(having), -1 / len(lacking))[:, None]  # both sides weigh alike
    scores, even = x.new_zeros(x.shape[:2]), torch.arange(len(shows), device=x.device) % 2 == 0
    for half in (even, ~even):  # each half is scored by what the other taught
        taught = x[:, ~half]
        gram = taught.mT @ taught
        gram.diagonal(dim1=1, dim2=2).add_(PENALTY * x.shape[2])
        weight = torch.cholesky_solve(taught.mT @ wanted[~half], torch.linalg.cholesky(gram))
        scores[:, half] = (x[:, half] @ weight)[..., 0]
    told = x.new_tensor([area_under_curve(cell, shows.float()) for cell in scores])
    less = told.max() - told - CHANCE * _error(told.max().item(), len(having), len(lacking))
    cells = ((BEYOND - less) / (BEYOND - WITHIN)).clamp(0, 1).view(side, side)
    return cells if cells.mean() <= MOST and told.max() >= TELLS else torch.ones_like(cells)


def _error(auc: float, having: int, lacking: int) -> float:
    """The standard error of an AUC (Hanley and McNeil 1982)."""
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (having - 1) * (q1 - auc**2) + (lacking - 1) * (q2 - auc**2)
    return (max(spread, 0.0) / (having * lacking)) ** 0.5


@dataclass(frozen=True)
class Canvas:
    """Pictures that are painted over inside a region each, and inner maps with them."""

    pictures: Tensor  # [n, 3, s, s]
    maps: Tensor  # [n, c, h, w]
    cover: Tensor  # [n, 1, cells, cells], 1 where the new one shows

    def of(self, which: Tensor) -> "Canvas":
        return Canvas(self.pictures[which], self.maps[which], self.cover[which])

    def painted(self, pictures: Tensor, maps: Tensor) -> tuple[Tensor, Tensor]:
        return _over(self.pictures, pictures, self.cover), _over(self.maps, maps, self.cover)


def _over(old: Tensor, new: Tensor, cover: Tensor) -> Tensor:
    part = F.interpolate(cover, size=new.shape[-2:], mode="bilinear", align_corners=False)
    return torch.lerp(old.float(), new.float(), part)
