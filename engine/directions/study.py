"""Everything that is found out before training: directions, probes, and the lessons for the student."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from engine.core.errors import UserError
from engine.core.events import Event
from engine.data import Request
from engine.directions.attacked import Attacker
from engine.directions.direction import Direction, edit
from engine.directions.find import apart, find, find_all, moving, protect_from
from engine.directions.labelled import Labelled, features_of
from engine.directions.lessons import Lessons
from engine.directions.region import Canvas, region
from engine.directions.sight import Album, Eye, Seen, Sight
from engine.directions.space import Space, survey
from engine.directions.targets import Keeper, Way, targets_by_score, targets_by_sight

HELD_OUT = 8  # one in so many random samples is never taught
ENOUGH = 240  # samples of each kind that tell where a feature is
BACK = "halfway"  # along what protected attributes are brought back
COARSE = 4  # one in so many rows of w, the first ones, decides the shape of hair, hats and glasses


@dataclass(frozen=True)
class Search:
    """How a feature is looked for."""

    fit: str = "probe"  # or a name in fits.FITS
    threshold: str = "random"
    move: str = "halfway"
    recall: float = 0.95
    deeper: float = 0.0
    samples: int = 800  # random ones that are looked at
    scaled_by: int = 400  # of them: scores have their units from these, so that a closer look scores alike
    attacked: bool = False  # whether the lessons are to have an attacker
    local: bool = False  # whether a sample changes only where its feature is
    seed: int = 0

    @property
    def how(self) -> dict[str, Any]:
        return {"threshold": self.threshold, "move": self.move, "recall": self.recall, "deeper": self.deeper}


@dataclass(frozen=True)
class Study:
    """What was found. The first `drawn` samples of `pool` are random ones, the others are the labelled ones."""

    space: Space
    directions: Sequence[Direction]
    ways: Sequence[Way]  # off the features, the gentlest first
    sights: Sequence[Sight]
    keepers: Sequence[Keeper]  # of what must be kept
    pool: Seen
    drawn: int
    new: Tensor  # [n] not seen by an earlier study
    first: Tensor  # where in `pool` the samples labelled for the first feature are, those with it first
    flagged: Tensor  # [n] shows a feature
    clear: Tensor  # [n] shows none, beyond doubt

    @property
    def share(self) -> float:
        """Of random samples, how many would change."""
        return self.flagged[: self.drawn].float().mean().item()


def study(
    base: nn.Module, request: Request, search: Search, eye: Eye, earlier: Study | None = None
) -> Generator[Event, bool | None, Study]:
    """Looks at random samples and at the labelled ones and finds the features. What an `earlier` study of fewer samples
    has seen is not looked at again, and what it has learnt to see is not learnt again."""
    features, keep = features_of(request)
    everyone = [labelled.check() for labelled in (*features, *keep)]
    # The same seed is often labelled for several features: it is looked at once.
    codes, place = torch.unique(torch.cat([labelled.codes for labelled in everyone]), dim=0, return_inverse=True)
    if earlier:
        space, known = earlier.space, earlier.drawn
        more = yield from eye.watch(base, space.codes[known : search.samples], "looking at more random samples")
        pool, seen = Seen.join([earlier.pool.of(slice(known)), more]), earlier.pool.of(slice(known, None))
    else:
        space = survey(base, psi=float(request.extra.get("psi", torch.tensor(1.0))), seed=search.seed)
        pool = yield from eye.watch(base, space.codes[: search.samples], "looking at random samples")
        seen = yield from eye.watch(base, codes, "looking at the labelled samples")
    places = place.split([len(labelled.codes) for labelled in everyone])
    erased = [number < len(features) for number in range(len(everyone))]  # of the others no threshold is wanted
    if earlier:
        learnt = [*earlier.sights, *(keeper.sight for keeper in earlier.keepers)]
    else:
        album = Album(seen.looks, pool.looks[: search.scaled_by])
        sought = everyone if search.fit == "probe" else features
        learnt = [
            Sight.learnt(labelled, where, album, search.recall if tested else None)
            for labelled, where, tested in zip(sought, places, erased, strict=False)
        ]
    sights = [sight.over(pool.looks) for sight in learnt]
    looked, protected = Seen.join([pool, seen]), sights[len(features) :]
    mine = [sight.beside(protected, pool.looks) for sight in sights[: len(features)]]
    if search.fit == "probe":
        seers = [*mine, *protected]
        extended = [_extended(labelled, sight, pool) for labelled, sight in zip(everyone, seers, strict=True)]
        fitted = [
            find(labelled, space, fit="logistic", tested=tested, **search.how)
            for labelled, tested in zip(extended, erased, strict=True)
        ]
        own, kept = fitted[: len(features)], fitted[len(features) :]
        directions = own if search.move == "printed" else apart(own, kept, space, search.move)
        wide = moving(own, kept, space, "covariance")
        back = [protect_from(one, own, space, BACK) for one in kept]
        keepers = [Keeper(*pair) for pair in zip(back, protected, strict=True)]
        rows, few = base.num_ws, -(-base.num_ws // COARSE)
        ways = [*(Way(directions, count, rows) for count in sorted({few, rows})), Way(wide, few, rows)]
        flagged = torch.stack([sight.flags(looked.looks) for sight in mine]).any(0)
        clear = torch.stack([sight.is_clear(looked.looks) for sight in mine]).all(0)
    else:
        directions, ways, keepers = find_all(features, keep, space, fit=search.fit, **search.how), (), ()
        flagged = edit(looked.codes[:, None], directions)[1]
        clear = ~flagged
    if not flagged.any() or not clear.any():
        words = "shows" if clear.any() else "is without"
        raise UserError(f"none of {len(flagged)} samples {words} “{request.label}”: label more samples of that side")
    drawn, index = len(pool.codes), torch.arange(len(flagged), device=flagged.device)
    new = (index >= earlier.drawn) & (index < drawn) if earlier else torch.ones_like(flagged)
    return Study(space, directions, ways, mine, keepers, looked, drawn, new, drawn + places[0], flagged, clear)


def _extended(labelled: Labelled, sight: Sight, pool: Seen) -> Labelled:
    """Labels and the probe's clear answers on random samples."""
    with_it, without = pool.codes[sight.flags(pool.looks)], pool.codes[sight.is_clear(pool.looks)]
    having, lacking = torch.cat([labelled.having, with_it]), torch.cat([labelled.lacking, without])
    p, none = len(labelled.having), labelled.chosen.new_zeros
    chosen = torch.cat([labelled.chosen[:p], none(len(with_it)), labelled.chosen[p:], none(len(without))])
    return Labelled(labelled.name, having, lacking, chosen)


def prepare_lessons(
    base: nn.Module, found: Study, search: Search, eye: Eye, earlier: Lessons | None = None
) -> Generator[Event, bool | None, tuple[Lessons, Lessons]]:
    """Lessons, and held-out ones that are only looked at. What `earlier` lessons show instead of the feature is kept;
    only for new samples it is found."""

    def watch(codes: Tensor, note: str, onto: Canvas | None = None) -> Generator[Event, bool | None, Seen]:
        return eye.watch(base, codes, note, onto)

    index = torch.arange(len(found.flagged), device=found.flagged.device)
    held = (index % HELD_OUT == HELD_OUT - 1) & (index < found.drawn)
    flagged = found.pool.of(found.flagged & ~held & found.new)
    regions = None
    if search.local or search.attacked:
        regions = torch.stack([_region(found.pool, sight) for sight in found.sights])
    if not len(flagged.codes):
        erase = flagged
    elif search.fit == "probe":
        where = regions if search.local else None
        erase = yield from targets_by_sight(flagged, found.ways, found.sights, watch, found.keepers, where)
    else:
        erase = yield from targets_by_score(flagged, found.directions, watch)
    if earlier:
        erase = Seen.join([earlier.erase, erase])
    taught, tested = (
        Lessons(found.pool.of(found.clear & part), shown).in_order(found.sights)
        for part, shown in ((~held, erase), (held, found.pool.of(found.flagged & held)))
    )
    if search.attacked:
        sure = found.clear | found.flagged
        known = found.pool.of(sure), found.flagged[sure]
        ways = found.ways or [Way(found.directions, base.num_ws, base.num_ws)]
        attacker = Attacker.of(eye, *known, found.space.codes, ways, regions)
        taught = replace(taught, attacker=attacker)
    return taught, tested


def _region(pool: Seen, sight: Sight) -> Tensor:
    """Where in the picture the feature is, from samples that the probe is sure of."""
    sides = [which.nonzero()[:, 0][:ENOUGH] for which in (sight.flags(pool.looks), sight.is_clear(pool.looks))]
    return region(*(pool.maps[side] for side in sides))
