"""The check by people: a hundred pairs of fresh samples before and after, nobody told which is which."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from engine.core.errors import UserError
from engine.core.joblog import JobLog, Row
from engine.core.knobs import build
from engine.core.targets import Labels
from engine.delta import compose
from engine.directions.find import find
from engine.directions.labelled import features_of
from engine.directions.sight import Sight
from engine.directions.space import survey
from engine.evaluation.human import Pair, blind, tally
from engine.files import atomic
from engine.methods.feature import Feature
from engine.models import to_pixels
from engine.requests import labelled_codes
from engine.store import Store
from engine.studio.desk import Place
from engine.studio.forgetting import LOCAL, revive
from engine.studio.labelling import Labelling, side_of

PAIRS = 100
FIRST = 2_000_000_000  # nobody labels these seeds, and no other check draws them
LOOKED_AT = 300  # fresh samples among which those with the feature are looked for
FILE = "people.json"


class BlindCheck(Labelling):
    """The part of the Studio that asks people."""

    store: Store
    log: JobLog

    def human_check(self, job: str, *, owner: str = LOCAL) -> list[Pair]:
        """The questions of a run's check. They are drawn when they are first asked for and stay the same: samples that
        were not labelled, half of which showed the feature before, as far as the run's own way of finding it tells."""
        row = self.log.get(job, owner)
        if row.params["target"]["kind"] != "Labels":
            raise UserError(f"run {job} did not forget a feature")
        stored = self._people(job)
        if "pairs" not in stored:
            likely, others = self._fresh(row)
            stored = {"pairs": [asdict(pair) for pair in blind(likely, others, PAIRS, seed=0)], "answers": {}}
            self._put_people(job, stored)
        return [Pair(**pair) for pair in stored["pairs"]]

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
            old, new = (to_pixels(model.synth(w, size=size or side_of(model, 256)))[0] for model in (before, after))
        return (new, old) if pair.after_is_left else (old, new)

    def human_answers(self, job: str, *, owner: str = LOCAL) -> dict[int, str]:
        """What was answered so far, by number of the pair."""
        self.log.get(job, owner)
        return {int(number): answer for number, answer in self._people(job).get("answers", {}).items()}

    def answer_human_check(self, job: str, answers: Mapping[int, str], *, owner: str = LOCAL) -> dict[str, object]:
        """Stores the answers with the run and gives the tally."""
        row, pairs = self.log.get(job, owner), self.human_check(job, owner=owner)
        result, said = tally(pairs, answers), {str(number): answer for number, answer in answers.items()}
        self._put_people(job, {"pairs": [asdict(pair) for pair in pairs], "answers": said, "tally": result})
        self.log.set_result(job, {**(row.result or {}), "people": result})
        return result

    def _people(self, job: str) -> dict[str, Any]:
        """What is stored of a check; answers to questions that were not stored with them say nothing."""
        path = self.store.run_folder(job) / FILE
        stored = json.loads(path.read_text()) if path.exists() else {}
        return stored if "pairs" in stored else {}

    def _put_people(self, job: str, content: Mapping[str, Any]) -> None:
        with atomic(self.store.run_folder(job) / FILE) as file:
            file.write(json.dumps(content).encode())

    def _fresh(self, row: Row) -> tuple[list[int], list[int]]:
        """Seeds that show the feature most before the run, and others, as they come, that do not."""
        target, params = revive(row.params["target"]), row.params
        assert isinstance(target, Labels)
        model = self.models.with_deltas(params["base"], params["deltas"])
        known = {*target.having, *target.lacking}
        seeds = [seed for seed in range(FIRST, FIRST + LOOKED_AT) if seed not in known]
        place = Place(params["base"], tuple(params["deltas"]), target.psi)
        found = self._excess(model, place, target, build(Feature, params["knobs"]), seeds)
        excess = dict(zip(seeds, found, strict=True))
        ranked = sorted(seeds, key=lambda seed: -excess[seed])
        likely, rest = ranked[: PAIRS // 2], ranked[PAIRS // 2 :]
        return likely, sorted(rest, key=lambda seed: (max(excess[seed], 0.0), seed))

    def _excess(
        self, model: nn.Module, place: Place, target: Labels, method: Feature, seeds: Sequence[int]
    ) -> list[float]:
        """How far each sample's score lies above the gate, by the probe or, in a run without one, by the direction."""
        if method.direction == "probe":
            labelled, looks, _ = self._looked(place, target, seeds)
            sight = Sight.fit(labelled, looks, method.recall)
            return (sight.scores(looks) - sight.gate).tolist()
        (first, *_), _ = features_of(labelled_codes(model, target))
        space = survey(model, psi=target.psi, seed=method.seed)
        direction = find(first, space, fit=method.direction, **method.search.how)
        codes = model.map(model.sample_z(seeds), psi=target.psi)[:, 0]
        return (direction.scores(codes) - direction.gate).tolist()
