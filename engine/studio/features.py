"""Features: what to label next, what a direction would do, labels as files, and the check by people."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from engine import device as devices
from engine import labelfile
from engine.core.errors import UserError
from engine.core.events import Progress
from engine.core.joblog import JobLog
from engine.core.knobs import build
from engine.core.labelbook import LabelBook
from engine.core.targets import Labels
from engine.delta import compose
from engine.directions.active import Probe, is_enough, odd_labels, sure_guesses, useful_first
from engine.directions.find import unprotected, warnings
from engine.directions.fits import area_under_curve, held_out_scores, logistic
from engine.directions.labelled import Labelled, shortage
from engine.directions.sight import Eye
from engine.directions.space import Space
from engine.directions.study import Study, study
from engine.evaluation.human import Pair, blind, tally
from engine.files import atomic
from engine.methods.feature import Feature
from engine.models import Models, to_pixels
from engine.requests import labelled_codes
from engine.store import Store
from engine.studio.desk import Desk, Place
from engine.studio.forgetting import LOCAL

PREVIEW_SAMPLES = 200  # random ones behind a preview; a run looks at more
BINS = 40


@dataclass(frozen=True)
class FeaturePreview:
    """What erasing would do, before it is done. Scores are the probe's, in standard deviations of random samples."""

    token: str  # for `slide`
    name: str
    auc: float  # how well held-out labels separate, 0.5 to 1
    share: float  # of random samples would change
    edges: list[float]
    random: list[int]  # counts by bin
    having: list[int]
    lacking: list[int]
    gate: float
    land: float
    warnings: list[str]


@dataclass(frozen=True)
class Advice:
    """What helps a labeller now. While labels are too few, `missing` says what is wanted and the rest is empty."""

    missing: str
    order: list[int]  # seeds, the most useful first
    guesses: dict[int, int]  # seed to 1 or 0, where the probe is sure
    odd: list[int]  # labelled seeds that look wrong, the worst first
    auc: float = float("nan")


class Features:
    """The part of the Studio that knows features."""

    store: Store
    models: Models
    log: JobLog
    labels: LabelBook
    device: torch.device

    # Before training

    def preview_feature(
        self, base: str, target: Labels, *, deltas: Sequence[str] = (), knobs: Mapping[str, Any] | None = None
    ) -> Iterator[str | FeaturePreview]:
        """Yields what is being done, in words, and ends with the preview. The samples looked at are remembered."""
        model = self.models.with_deltas(base, deltas)
        method = build(Feature, {**(knobs or {}), "samples": PREVIEW_SAMPLES})
        task = study(model, labelled_codes(model, target), method.search, self._eye(model))
        while True:
            try:
                event = next(task)
            except StopIteration as end:
                found = end.value
                break
            if isinstance(event, Progress):
                yield event.note
        token = self._desk.put(Place(base, tuple(deltas), target.psi), target, found)
        seen = _preview(token, found, len(target.having))
        yield replace(seen, warnings=seen.warnings + unprotected(model.latent, target.name, target.keep))

    def slide(
        self, token: str, steps: Sequence[float] = (-3.0, 0.0, 3.0), *, size: int | None = None
    ) -> list[list[np.ndarray]]:
        """Six labelled samples, three with the feature first, each moved along the direction by so many standard
        deviations: rows of pictures, HWC uint8."""
        place, target, found = self._desk.get(token)
        model, direction = self.models.with_deltas(place.base, place.deltas), found.directions[0]
        seeds = [*target.having[:3], *target.lacking[:3]]
        moves = torch.tensor(steps, dtype=torch.float32, device=self.device)[None, :, None] * direction.sigma
        with torch.inference_mode():
            codes = model.map(model.sample_z(seeds), psi=target.psi)[:, :1]
            codes = (codes + moves * direction.shift).flatten(0, 1)
            eye = Eye(size or _side(model, 128), devices.quick_type(self.device))
            shown = np.concatenate([to_pixels(eye.pictures(model, part)[1]) for part in codes.split(9)])
        return [list(row) for row in shown.reshape(len(seeds), len(steps), *shown.shape[1:])]

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
        """Which of these seeds to label next, what the probe would answer, and which labels it doubts."""
        target = self.labels.target(owner, base, feature, psi)
        missing = shortage(len(target.having), len(target.lacking))
        if missing:
            return Advice(missing, list(seeds), {}, [])
        known, left = (
            [*target.having, *target.lacking],
            [s for s in seeds if s not in {*target.having, *target.lacking}],
        )
        model, place = self.models.with_deltas(base, deltas), Place(base, tuple(deltas), psi)
        looks = self._desk.looks(place, model, self._eye(model), [*known, *left])
        space, p = Space.of(looks, ball=True), len(target.having)
        picked = torch.tensor([seed in set(target.chosen) for seed in known])
        labelled = Labelled(feature, looks[:p], looks[p : len(known)], picked.to(looks.device))
        probe, fresh = Probe.fit(labelled, space), looks[len(known) :]
        return Advice(
            missing="",
            order=[left[k] for k in useful_first(probe, fresh)],
            guesses={left[k]: answer for k, answer in sure_guesses(probe, fresh).items()},
            odd=[known[k] for k in odd_labels(labelled, space)],
            auc=_separation(labelled, space),
        )

    def enough_labels(self, history: Sequence[float]) -> bool:
        """Whether labelling may stop: the AUC after each page is good and steady."""
        return is_enough(list(history))

    # Labels as files

    def labels_text(self, base: str, feature: str, kind: str = "json", *, psi: float = 1.0, owner: str = LOCAL) -> str:
        """A file's content, bound to the base's weights."""
        exported = self.labels.export(owner, base, feature)
        if not exported["labels"]:
            known = ", ".join(self.labels.features(owner, base)) or "none yet"
            raise UserError(f"there are no labels of “{feature}” on {base}; labelled features: {known}")
        return labelfile.write(exported, self._binding(base, psi), kind)

    def take_labels(self, text: str, *, owner: str = LOCAL) -> tuple[str, str, float]:
        """Stores a file's labels and gives base, feature and truncation; labels of other weights are refused."""
        found = labelfile.read(text)
        labelfile.check_binding(found, self._binding(str(found.get("base", "")), float(found.get("psi", 1.0))))
        return str(found["base"]), self.labels.load(owner, found), float(found["psi"])

    def labelled_target(
        self, text: str, *, also: Sequence[str] = (), protect: Sequence[str] = (), owner: str = LOCAL
    ) -> tuple[str, Labels]:
        """The base and the feature of a file of labels, to be forgotten together with those of `also`, while those of
        `protect` stay. All must be of one base."""
        taken = [self.take_labels(one, owner=owner) for one in (text, *also, *protect)]
        base = taken[0][0]
        if other := next((f"“{feature}” of {here}" for here, feature, _ in taken if here != base), None):
            raise UserError(f"these are labels of {other}, the first ones of {base}; use labels of one model")
        first, *more = (self.labels.target(owner, base, feature, psi) for _, feature, psi in taken)
        return base, replace(first, also=tuple(more[: len(also)]), keep=tuple(more[len(also) :]))

    def _binding(self, base: str, psi: float) -> labelfile.Binding:
        model = self.models.base(base)
        shape = (model.num_ws, model.w_dim)
        return labelfile.Binding(base, self.models.fingerprint(base), model.latent, shape, psi)

    # The check by people

    def human_check(self, job: str, *, count: int = 100, seed: int = 0, owner: str = LOCAL) -> list[Pair]:
        """The questions of a run's check, always the same ones; half show the feature if the labels are right."""
        target = self.log.get(job, owner).params["target"]
        if target["kind"] != "Labels":
            raise UserError(f"run {job} did not forget a feature")
        return blind(target["having"], target["lacking"], count, seed)

    def human_pair(
        self, job: str, pair: Pair, *, size: int | None = None, owner: str = LOCAL
    ) -> tuple[np.ndarray, np.ndarray]:
        """Left and right picture of a question."""
        row = self.log.get(job, owner)
        params, kept = row.params, (row.result or {}).get("kept", ())
        before = self.models.with_deltas(params["base"], params["deltas"])
        results = [delta for delta in self.store.results(job) if delta.card.role == "forget"]
        if not results and not kept:
            raise UserError(f"the result of run {job} was discarded; repeat the run to check it")
        after = (
            compose(before, results).eval()
            if results
            else self.models.with_deltas(params["base"], [*params["deltas"], *kept])
        )
        with torch.inference_mode():
            w = before.map(before.sample_z([pair.seed]), psi=params["target"]["psi"])
            old, new = (to_pixels(model.synth(w, size=size or _side(model, 256)))[0] for model in (before, after))
        return (new, old) if pair.after_is_left else (old, new)

    def human_answers(self, job: str, *, owner: str = LOCAL) -> dict[int, str]:
        """What was answered so far, by number of the pair."""
        self.log.get(job, owner)
        path = self.store.run_folder(job) / "people.json"
        stored = json.loads(path.read_text())["answers"] if path.exists() else {}
        return {int(number): answer for number, answer in stored.items()}

    def answer_human_check(self, job: str, answers: Mapping[int, str], *, owner: str = LOCAL) -> dict[str, object]:
        """Stores the answers with the run and gives the tally."""
        row = self.log.get(job, owner)
        result = tally(self.human_check(job, owner=owner), answers)
        with atomic(self.store.run_folder(job) / "people.json") as file:
            file.write(json.dumps({"answers": {str(k): v for k, v in answers.items()}, "tally": result}).encode())
        self.log.set_result(job, {**(row.result or {}), "people": result})
        return result

    def _eye(self, model: nn.Module) -> Eye:
        return Eye(model.sizes[0], devices.quick_type(self.device))

    @cached_property
    def _desk(self) -> Desk:
        return Desk()


def _preview(token: str, found: Study, having: int) -> FeaturePreview:
    sight, direction = found.sights[0], found.directions[0]
    scores = sight.scores(found.pool.looks).cpu()
    labelled = scores[found.first.cpu()]
    parts = (scores[: found.drawn], labelled[:having], labelled[having:])
    low, high = scores.min().item(), scores.max().item()
    edges = torch.linspace(low, high, BINS + 1)
    counts = [torch.histc(part, BINS, low, high).long().tolist() for part in parts]
    said = warnings(replace(direction, auc=sight.auc), found.share)
    return FeaturePreview(
        token, sight.name, sight.auc, found.share, edges.tolist(), *counts, sight.gate, sight.clear, said
    )


def _separation(labelled: Labelled, space: Space) -> float:
    random = labelled.random
    if shortage(len(random.having), len(random.lacking)):
        return float("nan")
    return area_under_curve(held_out_scores(random, space, logistic), random.truth)


def _side(model: nn.Module, wanted: int) -> int:
    """The largest side up to `wanted` that the model makes, else its smallest."""
    return max([side for side in model.sizes if side <= wanted], default=model.sizes[0])
