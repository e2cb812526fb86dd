"""Features: what a direction would do, and the check by people."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from engine import device as devices
from engine.core.errors import UserError
from engine.core.events import Progress
from engine.core.joblog import JobLog
from engine.core.knobs import build
from engine.core.labelbook import LabelBook
from engine.core.targets import Labels
from engine.delta import compose
from engine.directions.find import warnings
from engine.directions.sight import Eye
from engine.directions.study import Study, study
from engine.evaluation.human import Pair, blind, tally
from engine.files import atomic
from engine.methods.feature import Feature
from engine.models import Models, to_pixels
from engine.requests import labelled_codes
from engine.store import Store
from engine.studio.desk import Place
from engine.studio.forgetting import LOCAL
from engine.studio.labelling import Labelling

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


class Features(Labelling):
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
        yield _preview(token, found, len(target.having))

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


def _side(model: nn.Module, wanted: int) -> int:
    """The largest side up to `wanted` that the model makes, else its smallest."""
    return max([side for side in model.sizes if side <= wanted], default=model.sizes[0])
