"""Labelling: what to show next, what a probe thinks of the labels so far, and labels as files."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from engine import device as devices
from engine import labelfile
from engine.core.errors import Mismatch, UserError
from engine.core.labelbook import LabelBook, labels_of
from engine.core.targets import Labels
from engine.directions.active import GOOD, Probe, is_enough, odd_labels, smart_pages, sure_guesses
from engine.directions.fits import area_under_curve, held_out_scores, logistic
from engine.directions.labelled import Labelled, shortage
from engine.directions.sight import Eye
from engine.directions.space import Space
from engine.models import Models
from engine.studio.desk import Desk, Place
from engine.studio.forgetting import LOCAL

STEP = 10  # random labels after which the AUC is noted
STEPS = 4  # that are compared


@dataclass(frozen=True)
class Advice:
    """What helps a labeller now. While labels are too few, `missing` says what is wanted and the rest is empty."""

    missing: str
    guesses: dict[int, int]  # seed to 1 or 0, where the probe is sure
    odd: list[int]  # labelled seeds that look wrong, the worst first
    auc: float = math.nan  # of labels drawn at random, each from a probe that had not seen it
    enough: bool = False  # that AUC is good, and more labels hardly change it


class Labelling:
    """The part of the Studio that knows labels."""

    models: Models
    labels: LabelBook
    device: torch.device

    def advise(
        self,
        base: str,
        feature: str,
        seeds: Sequence[int],
        *,
        psi: float = 1.0,
        deltas: Sequence[str] = (),
        owner: str = LOCAL,
    ) -> Advice:
        """What the probe would answer for these seeds, which labels it doubts, and whether there are enough."""
        target, place = self.labels.target(owner, base, feature, psi), Place(base, tuple(deltas), psi)
        missing = shortage(len(target.having), len(target.lacking))
        if missing:
            return Advice(missing, {}, [])
        known = [*target.having, *target.lacking]
        left = [seed for seed in seeds if seed not in set(known)]
        labelled, fresh, space = self._looked(place, target, left)
        probe, given = Probe.fit(labelled, space), self.labels.get(owner, base, feature)
        drawn = [(seed, label.value) for seed, label in given.items() if label.how == "random"]
        rows = dict(zip(known, labelled.codes, strict=True))
        auc, last = self._separation(place, drawn, rows, space), len(drawn) // STEP * STEP
        counts = [max(0, last - STEP * ago) for ago in reversed(range(STEPS))] if auc >= GOOD else []
        return Advice(
            missing="",
            guesses={left[k]: answer for k, answer in sure_guesses(probe, fresh).items()},
            odd=[known[k] for k in odd_labels(labelled, space)],
            auc=auc,
            enough=is_enough([self._separation(place, drawn[:count], rows, space) for count in counts]),
        )

    def next_samples(
        self,
        base: str,
        feature: str,
        pool: Sequence[int],
        count: int,
        *,
        psi: float = 1.0,
        deltas: Sequence[str] = (),
        owner: str = LOCAL,
    ) -> list[tuple[int, bool]]:
        """`count` seeds of the pool to label next, each with whether it was chosen: most look like the feature or are
        uncertain, and some of every ten are drawn at random, always the same ones of a pool."""
        target = self.labels.target(owner, base, feature, psi)
        if missing := shortage(len(target.having), len(target.lacking)):
            raise UserError(f"“{feature}”: {missing}")
        labelled, fresh, space = self._looked(Place(base, tuple(deltas), psi), target, pool)
        pages = smart_pages(Probe.fit(labelled, space), fresh, count, seed=pool[0])
        return [(pool[index], chosen) for index, chosen in pages]

    def _looked(self, place: Place, target: Labels, seeds: Sequence[int]) -> tuple[Labelled, Tensor, Space]:
        """How labelled samples and others look, and the cloud of them all."""
        known, p = [*target.having, *target.lacking], len(target.having)
        model = self.models.with_deltas(place.base, place.deltas)
        looks = self._desk.looks(place, model, self._eye(model), [*known, *seeds])
        picked = torch.tensor([seed in set(target.chosen) for seed in known])
        labelled = Labelled(target.name, looks[:p], looks[p : len(known)], picked.to(looks.device))
        return labelled, looks[len(known) :], Space.of(looks, ball=True)

    def _separation(
        self, place: Place, drawn: Sequence[tuple[int, int]], rows: Mapping[int, Tensor], space: Space
    ) -> float:
        """How well labels (seed and value) can be foretold from the others; not a number while they are too few."""
        sides = [tuple(seed for seed, value in drawn if value == side) for side in (1, 0)]
        if shortage(*map(len, sides)):
            return math.nan

        def cross_validated() -> float:
            part = Labelled.of("", *(torch.stack([rows[seed] for seed in side]) for side in sides))
            return area_under_curve(held_out_scores(part, space, logistic), part.truth)

        return self._desk.once((place, *sides), cross_validated)

    # Labels as files

    def labels_text(self, base: str, feature: str, kind: str = "json", *, psi: float = 1.0, owner: str = LOCAL) -> str:
        """A file's content, bound to the base's weights."""
        exported = self.labels.export(owner, base, feature)
        if not exported["labels"]:
            known = ", ".join(self.labels.features(owner, base)) or "none yet"
            raise UserError(f"there are no labels of “{feature}” on {base}; labelled features: {known}")
        return labelfile.write(exported, self._binding(base, psi), kind)

    def take_labels(
        self, text: str, *, base: str | None = None, psi: float = 1.0, owner: str = LOCAL
    ) -> tuple[str, str]:
        """Stores a file's labels and gives base and feature. Labels of other weights, of another truncation or of
        another model than `base` are refused, and nothing of them is stored."""
        found = self._read(text)
        if base is not None and found["base"] != base:
            raise Mismatch(
                f"these labels are of {found['base']}, and here is {base}: open the page with --base {found['base']}"
            )
        if found["psi"] != psi:
            raise Mismatch(
                f"these labels are of samples at truncation {found['psi']:g}; here they are drawn at {psi:g}, where "
                "the same seeds show other pictures: label them here anew, or use 'python app.py erase-feature FILE'"
            )
        return str(found["base"]), self.labels.load(owner, found)

    def labelled_target(
        self, text: str, *, also: Sequence[str] = (), protect: Sequence[str] = ()
    ) -> tuple[str, Labels]:
        """The base and the feature of a file of labels, to be forgotten together with those of `also`, while those of
        `protect` stay. All must be of one base and one truncation. Nothing is stored: the files say all."""
        read = [self._read(one) for one in (text, *also, *protect)]
        base = str(read[0]["base"])
        if other := next((f"“{one['feature']}” of {one['base']}" for one in read if one["base"] != base), None):
            raise UserError(f"these are labels of {other}, the first ones of {base}; use labels of one model")
        first, *more = (labels_of(one, float(one["psi"])) for one in read)
        return base, replace(first, also=tuple(more[: len(also)]), keep=tuple(more[len(also) :]))

    def _read(self, text: str) -> dict[str, Any]:
        """A file's labels, if they are of weights that are here."""
        found = labelfile.read(text)
        labelfile.check_binding(found, self._binding(str(found.get("base", "")), float(found.get("psi", 1.0))))
        return found

    def _binding(self, base: str, psi: float) -> labelfile.Binding:
        model = self.models.base(base)
        shape = (model.num_ws, model.w_dim)
        return labelfile.Binding(base, self.models.fingerprint(base), model.latent, shape, psi)

    def _eye(self, model: nn.Module) -> Eye:
        return Eye(model.sizes[0], devices.quick_type(self.device))

    @cached_property
    def _desk(self) -> Desk:
        return Desk()


def side_of(model: nn.Module, wanted: int) -> int:
    """The largest side up to `wanted` that the model makes, else its smallest."""
    return max([side for side in model.sizes if side <= wanted], default=model.sizes[0])
