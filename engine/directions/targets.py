"""What a flagged sample is to show instead: the frozen generator's picture of a code that was moved off the feature."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.events import Event
from engine.directions.direction import Direction, edit
from engine.directions.region import Canvas
from engine.directions.sight import Seen, Sight

# (codes, what for, what they are painted onto if anything): looks, reporting progress
Watch = Callable[..., Generator[Event, bool | None, Seen]]
Doubts = Callable[[Tensor, Tensor], Tensor]  # (looks, of whom): [n, features], how far each is from gone

DEPTHS = (0.0, 1.5, 3.0)  # how much further a code is moved, in standard deviations, until it is clear
LEAST_MOVE = 1.0  # standard deviations: a flagged sample always moves, whatever its linear score says
ROUNDS = 3  # of bringing back what a move took along
AHEAD, HASTE = 0.25, 2.0  # a correction aims beyond clear and fast, since what is brought back pulls the other way
UNCLEAR = 10.0  # what a standard deviation of doubt weighs against one of a protected attribute


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
class Keeper:
    """Sees how much a picture shows of an attribute that must be kept, and knows the way back to it."""

    direction: Direction
    sight: Sight

    def lost(self, before: Tensor, now: Tensor) -> Tensor:
        """From looks: how many standard deviations less of it there are."""
        return self.sight.scores(before) - self.sight.scores(now)


class Best:
    """For every flagged sample the best code that was found so far, what is seen of it, and where it is painted."""

    def __init__(self, flagged: Seen, rows: int, cover: Tensor) -> None:
        everyone = torch.arange(len(flagged.codes), device=flagged.codes.device)
        self.worth = flagged.codes.new_full((len(everyone),), float("inf"))  # the less, the better
        self.seen = replace(flagged.of(everyone), codes=flagged.codes[:, None].repeat(1, rows, 1))
        self.cover = cover.clone()

    def offer(self, which: Tensor, seen: Seen, worth: Tensor, cover: Tensor) -> None:
        taken = worth < self.worth[which]
        self.worth[which[taken]] = worth[taken]
        for mine, new in zip((*self.seen.parts, self.cover), (*seen.parts, cover), strict=True):
            mine[which[taken]] = new[taken]


def targets_by_sight(
    flagged: Seen,
    ways: Sequence[Way],
    sights: Sequence[Sight],
    watch: Watch,
    keepers: Sequence[Keeper] = (),
    regions: Tensor | None = None,
) -> Generator[Event, bool | None, Seen]:
    """Every flagged sample moved off the features it shows, no further than until none of them is seen any more: by the
    first of the ways where that is enough, else as near to it as any of them came. Then what the move took along of
    protected attributes is brought back. Only the regions [features, s, s] of what a sample shows change in it, unless
    that is not enough."""
    shows = torch.stack([sight.flags(flagged.looks) for sight in sights], 1)  # [n, features]
    regions = torch.ones(len(sights), 1, 1, device=shows.device) if regions is None else regions
    local = (shows[..., None, None] * regions).amax(1, keepdim=True)  # [n, 1, s, s]

    def doubts(looks: Tensor, which: Tensor) -> Tensor:
        each = torch.stack([sight.doubt(looks) for sight in sights], 1)
        return each.masked_fill(~shows[which], -float("inf"))

    best = Best(flagged, ways[0].total, local)
    left = torch.arange(len(flagged.codes), device=flagged.codes.device)
    for cover, way, depth in _tries(local, ways):
        onto = Canvas(flagged.pictures, flagged.maps, cover).of(left)
        moved = way.moved(flagged.codes[left], shows[left], depth)
        seen = yield from watch(moved, "finding what to show instead", onto)
        best.offer(left, seen, doubts(seen.looks, left).amax(1), onto.cover)
        left = left[best.worth[left] >= 0]
        if not len(left):
            break
    if keepers:
        yield from _bring_back(flagged, best, ways[0].directions, keepers, doubts, watch)
    return replace(best.seen, codes=flagged.codes, looks=flagged.looks)


def _tries(local: Tensor, ways: Sequence[Way]) -> list[tuple[Tensor, Way, float]]:
    """What is painted, how a code is moved and how far, the gentlest first: in the region, a cell around it,
    everywhere. Outside of the region nothing is tried that is gentler than what was not enough inside."""
    inside = product([local], ways, DEPTHS)
    if local.min() == 1:
        return list(inside)
    covers = F.max_pool2d(local, 3, 1, 1), torch.ones_like(local)
    return [*inside, *product(covers, ways[1:] or ways, DEPTHS[1:])]


def _bring_back(
    flagged: Seen,
    best: Best,
    directions: Sequence[Direction],
    keepers: Sequence[Keeper],
    doubts: Doubts,
    watch: Watch,
) -> Generator[Event, bool | None, None]:
    """Corrects the codes by what is seen of them, since a direction in w that leaves a score alone does not leave the
    picture alone: what an attribute has lost is added along its own direction, and the feature is moved off again where
    that brought it back. Of the pictures that are clear of it, the one that lost least is shown."""
    everyone = torch.arange(len(best.worth), device=best.worth.device)
    now, rows = best.seen.of(everyone), -(-best.seen.codes.shape[1] // 2)  # the early rows decide what is shown
    onto = Canvas(flagged.pictures, flagged.maps, best.cover.clone())
    best.worth.fill_(float("inf"))
    for turn in range(ROUNDS + 1):
        lost = [keeper.lost(flagged.looks, now.looks) for keeper in keepers]
        over = doubts(now.looks, everyone)
        worth = UNCLEAR * over.amax(1).clamp(min=0) + torch.stack(lost).abs().sum(0)
        best.offer(everyone, now, worth, onto.cover)
        if turn == ROUNDS:
            break
        back = [(gap, keeper.direction) for gap, keeper in zip(lost, keepers, strict=True)]
        off = [(-HASTE * (far + AHEAD).clamp(min=0), one) for far, one in zip(over.T, directions, strict=True)]
        w = now.codes.clone()
        for far, direction in (*back, *off):
            w[:, :rows] += ((far * direction.sigma)[:, None] * direction.shift)[:, None]
        now = yield from watch(w, "keeping what is protected", onto)


def targets_by_score(
    flagged: Seen, directions: Sequence[Direction], watch: Watch
) -> Generator[Event, bool | None, Seen]:
    """The paper's way: flagged codes go to their landing value, and what is there is shown."""
    moved, _ = edit(flagged.codes[:, None], directions)
    seen = yield from watch(moved[:, 0], "finding what to show instead")
    return replace(seen, codes=flagged.codes, looks=flagged.looks)
