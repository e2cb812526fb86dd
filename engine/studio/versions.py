"""Versions of a model: a base with kept erasures, or with what a run has so far, drawn at the same codes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.errors import UserError
from engine.core.joblog import JobLog
from engine.delta import Card, Delta, compose
from engine.evaluation.change import measure_change
from engine.models import BATCH, Models, pictures
from engine.store import Store
from engine.studio.forgetting import LOCAL
from engine.studio.shelf import checked_seed

RUN = "run:"  # before a run's id: what it has so far, though it is not kept
SIDE = 128  # px at which pictures are measured

Code = int | str  # a seed, or the token of a face that was found in a photo


class Versions:
    """The part of the Studio that sets two versions side by side."""

    store: Store
    models: Models
    log: JobLog

    def versions(self, base: str, *, owner: str = LOCAL) -> dict[str, str]:
        """What can be applied to a base, with its words: kept erasures, then this owner's runs that are not decided."""
        found = {name: card.request for name, card in self.store.cards(base).items()}
        for row in self.log.rows(owner):
            if row.kind != "forget" or row.params["base"] != base:
                continue
            step = self.store.snapshot_step(row.id)
            if self.store.whole_result(row.id) is not None:
                found[f"{RUN}{row.id}"] = f"{row.params['target']['words']} (a run's result, not kept)"
            elif step is not None:
                found[f"{RUN}{row.id}"] = f"{row.params['target']['words']} (a run at step {step})"
        return found

    def draw(
        self,
        base: str,
        names: Sequence[str],
        codes: Sequence[Code],
        *,
        psi: float = 0.7,
        size: int | None = None,
        yaw: float = 0.0,
        owner: str = LOCAL,
    ) -> list[np.ndarray]:
        """Pictures of codes by one version, HWC uint8."""
        model = self._version(base, names, owner)
        return pictures(model, self._codes(model, base, codes, psi, owner), size=size, yaw=yaw)

    @torch.no_grad()  # not inference mode: the judges may be loaded here, and a later loss goes through them
    def measure(
        self,
        base: str,
        left: Sequence[str],
        right: Sequence[str],
        codes: Sequence[Code],
        *,
        psi: float = 0.7,
        owner: str = LOCAL,
    ) -> dict[str, Any]:
        """How two versions differ at these codes; see `measure_change`."""
        before, after = (self._version(base, names, owner) for names in (left, right))
        size = min((side for side in before.sizes if side >= SIDE), default=max(before.sizes))
        old, new = (
            torch.cat([model.synth(part, size=size) for part in w.split(BATCH)])
            for model in (before, after)
            for w in [self._codes(model, base, codes, psi, owner)]
        )
        return measure_change(before, old, new)

    def _version(self, base: str, names: Sequence[str], owner: str) -> nn.Module:
        model = self.models.with_deltas(base, [name for name in names if not name.startswith(RUN)])
        runs = [name.removeprefix(RUN) for name in names if name.startswith(RUN)]
        unkept = [delta for job in runs for delta in self._so_far(job, base, owner)]
        return compose(model, unkept).eval() if unkept else model

    def _so_far(self, job: str, base: str, owner: str) -> list[Delta]:
        """A run's result that waits for a decision, else where its last snapshot stands."""
        row = self.log.get(job, owner)
        if results := [delta for delta in self.store.results(job) if delta.card.role == "forget"]:
            return results
        snapshot = self.store.read_snapshot(job)
        if snapshot is None:
            raise UserError(f"run {job} has nothing to show: its result was kept or discarded, or it has none")
        state = self.models.with_deltas(base, row.params["deltas"]).state_dict()
        weights = {name.removeprefix("weight."): new for name, new in snapshot.items() if name.startswith("weight.")}
        card = Card(knobs={}, request=row.title, base_name=base)
        return [Delta(card, {name: new - state[name].cpu() for name, new in weights.items()})]

    @torch.no_grad()
    def _codes(self, model: nn.Module, base: str, codes: Sequence[Code], psi: float, owner: str) -> Tensor:
        """[n, num_ws, w_dim]; the codes of one call are all seeds or all photos."""
        if not codes:
            raise UserError("there is nothing to draw; give seeds, labelled samples or a photo")
        if isinstance(codes[0], str):
            return torch.cat([self.portrait_code(token, base, owner=owner) for token in codes])
        return model.map(model.sample_z([checked_seed(seed) for seed in codes]), psi=psi)
