"""What the student is taught: pictures to keep, pictures to change, and codes pushed towards the feature."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.directions.direction import Direction, pushed
from engine.directions.sight import Seen
from engine.directions.targets import LEAST_MOVE

Goals = tuple[Tensor, Seen, Tensor]  # codes, what must be seen of them, and which of them are to forget


@dataclass(frozen=True)
class Lessons:
    """`keep` and `erase` hold codes with the pictures the student must show for them."""

    keep: Seen
    erase: Seen
    directions: Sequence[Direction]
    reach: float

    def draw(self, counts: tuple[int, int, int], random: torch.Generator) -> Goals:
        """Kept, erased and pushed codes, so many of each.

        A pushed code is a kept one moved towards a feature: its picture must stay. It costs no frozen pass.
        """
        kept, erased, push = counts
        a, b = _pick(self.keep, kept + push, random), _pick(self.erase, erased, random)
        goals = Seen.join([self.keep.of(a[:kept]), self.erase.of(b), self.keep.of(a[kept:])])
        start = self.keep.codes[a[kept:]]
        codes = torch.cat([goals.codes[: kept + erased], self._push(start, random) if push else start])
        return codes, goals, torch.arange(len(codes), device=codes.device) >= kept

    def draw_mixed(self, count: int, random: torch.Generator) -> Goals:
        """A batch in which flagged samples are as frequent as among random ones."""
        total = len(self.keep.codes) + len(self.erase.codes)
        index = torch.randint(total, (count,), generator=random)
        kept = int((index < len(self.keep.codes)).sum())
        return self.draw((kept, count - kept, 0), random)

    def _push(self, codes: Tensor, random: torch.Generator) -> Tensor:
        """To a score between the gate and `reach` standard deviations beyond it, near ones more often."""
        which = torch.randint(len(self.directions), (len(codes),), generator=random)
        far = torch.rand(len(codes), generator=random).square().to(codes) * self.reach
        moved = codes[:, None].clone()
        for index, direction in enumerate(self.directions):
            mine = (which == index).to(codes.device)
            least = direction.scores(codes[mine]) + LEAST_MOVE * direction.sigma
            goal = torch.maximum(direction.gate + far[mine] * direction.sigma, least)
            moved[mine] = pushed(moved[mine], direction, goal)
        return moved[:, 0]


def _pick(seen: Seen, count: int, random: torch.Generator) -> Tensor:
    return torch.randint(len(seen.codes), (count,), generator=random).to(seen.codes.device)
