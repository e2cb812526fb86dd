"""What the student is taught: pictures to keep, pictures to change, and codes pushed towards the feature."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from engine.core.events import Event
from engine.directions.direction import Direction, edit, pushed
from engine.directions.sight import Seen, Sight

Watch = Callable[[Tensor, str], Generator[Event, bool | None, Seen]]  # (codes, what for): looks, reporting progress

DEPTHS = (0.0, 1.5, 3.0)  # how much further a code is moved, in standard deviations, until it is clear
LEAST_MOVE = 1.0  # standard deviations: a flagged sample always moves, whatever its linear score says


@dataclass(frozen=True)
class Way:
    """How codes are moved off features: along these directions, in the first `rows` of the `total` rows of w."""

    directions: Sequence[Direction]
    rows: int
    total: int

    def moved(self, codes: Tensor, shows: Tensor, depth: float) -> Tensor:
        """w [n, total, D], off each shown feature by at least one standard deviation, to `depth` of them below the
        landing value."""
        step = torch.zeros_like(codes)
        for shown, direction in zip(shows.T, self.directions, strict=True):
            far = (direction.scores(codes) - direction.land).clamp(min=LEAST_MOVE * direction.sigma)
            step += ((far + depth * direction.sigma) * shown)[:, None] * direction.shift
        w = codes[:, None].repeat(1, self.total, 1)
        w[:, : self.rows] -= step[:, None]
        return w


@dataclass(frozen=True)
class Lessons:
    """`keep` and `erase` hold codes with the pictures the student must show for them."""

    keep: Seen
    erase: Seen
    directions: Sequence[Direction]
    reach: float

    def draw(self, counts: tuple[int, int, int], random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Codes, target pictures and which of them are to forget: kept, erased and pushed ones, so many of each.

        A pushed code is a kept one moved towards a feature: its picture must stay. It costs no frozen pass, and it
        closes the way by which an attack on the code would bring the feature back.
        """
        kept, erased, push = counts
        a, b = _pick(self.keep, kept + push, random), _pick(self.erase, erased, random)
        start = self.keep.codes[a[kept:]]
        moved = self._push(start, random) if push else start
        codes = torch.cat([self.keep.codes[a[:kept]], self.erase.codes[b], moved])
        pictures = torch.cat([self.keep.pictures[a[:kept]], self.erase.pictures[b], self.keep.pictures[a[kept:]]])
        forget = torch.arange(len(codes), device=codes.device) >= kept
        return codes, pictures, forget

    def draw_mixed(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
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


def targets_by_sight(
    flagged: Seen, ways: Sequence[Way], sights: Sequence[Sight], watch: Watch
) -> Generator[Event, bool | None, Seen]:
    """Every flagged sample moved off the features it shows, no further than until none of them is seen any more: by the
    first of the ways where that is enough, else as near to it as any of them came."""
    shows = torch.stack([sight.flags(flagged.looks) for sight in sights], 1)  # [n, features]
    pictures, left = torch.empty_like(flagged.pictures), torch.arange(len(flagged.codes), device=flagged.codes.device)
    nearest = flagged.codes.new_full((len(left),), float("inf"))
    for way, depth in product(ways, DEPTHS):
        seen = yield from watch(way.moved(flagged.codes[left], shows[left], depth), "finding what to show instead")
        doubts = torch.stack([sight.doubt(seen.looks) for sight in sights], 1)
        worst = doubts.masked_fill(~shows[left], -float("inf")).amax(1)
        better = worst < nearest[left]
        nearest[left[better]], pictures[left[better]] = worst[better], seen.pictures[better]
        left = left[nearest[left] >= 0]
        if not len(left):
            break
    return Seen(flagged.codes, flagged.looks, pictures)


def targets_by_score(
    flagged: Seen, directions: Sequence[Direction], watch: Watch
) -> Generator[Event, bool | None, Seen]:
    """The paper's way: flagged codes go to their landing value, and what is there is shown."""
    moved, _ = edit(flagged.codes[:, None], directions)
    seen = yield from watch(moved[:, 0], "finding what to show instead")
    return Seen(flagged.codes, flagged.looks, seen.pictures)
