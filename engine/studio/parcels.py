"""Runs as zips: out of this studio and into another one."""

import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.core.joblog import JobLog, Row, State
from engine.core.knobs import build, values
from engine.core.targets import Labels, People, Seeds, has_photo
from engine.delta import Card, Delta
from engine.files import room_for
from engine.generators import bases
from engine.methods import methods
from engine.models import Models
from engine.runfile import ENDED, WAY_OUT, RunFile, pack, unpack
from engine.store import Store
from engine.studio.forgetting import LOCAL, revive


class Parcels:
    """The part of the Studio that sends runs out and takes them in."""

    store: Store
    models: Models
    log: JobLog

    def export_run(self, job: str, path: Path, *, owner: str | None = LOCAL) -> Path:
        """Settings, scores, log, pictures and deltas. Pictures of a person who came by photo stay here."""
        row = self.log.get(job, owner)
        if row.kind != "forget":
            raise UserError(
                "only runs that erase from a generator travel as a zip; a deposit or a vault has its own file"
            )
        if row.state not in ENDED:
            raise UserError(f"run {job} is {row.state.value}; a run can be exported when it has ended")
        folder = self.store.run_folder(job)
        is_private = has_photo(row.params["target"])
        pictures = [path for path in sorted(folder.glob("*.webp")) if not is_private or "-worst-" in path.name]
        pack(path, self._record(row), pictures, self._delta_files(row))
        return path

    def _record(self, row: Row) -> dict[str, Any]:
        times = {name: getattr(row, name) for name in ("created", "started", "finished")}
        return {
            "run": row.id,
            "title": row.title,
            "state": row.state.value,
            "error": row.error,
            "params": row.params,
            "scalars": (row.result or {}).get("scalars", {}),
            "fingerprint": self.models.fingerprint(row.params["base"]),
            "events": [(t, data) for _, t, data in self.log.events(row.id)],
            **times,
        }

    def _delta_files(self, row: Row) -> list[Path]:
        """Kept ones lie with the others, one that waits in the run's folder."""
        gone = (row.result or {}).get("deleted", ())
        kept = [self.store.delta_path(name) for name in (row.result or {}).get("kept", ()) if name not in gone]
        return kept or sorted(self.store.run_folder(row.id).glob("result-*.safetensors"))

    def import_run(self, path: Path, *, owner: str = LOCAL) -> str:
        """Takes a run in under a new id. Its delta is kept and not applied: nothing changes until somebody wants it."""
        with room_for("this run"), tempfile.TemporaryDirectory(dir=self.store.bases, prefix=".incoming.") as folder:
            found = unpack(path, Path(folder))
            params = self._checked_settings(found)
            deltas = [self._checked_delta(file, found, params) for file in found.deltas]
            job, kept = self.log.new_id(), []
            try:
                for index, delta in enumerate(deltas):
                    kept.append(self.store.put(delta, job, index))
                self.store.take_pictures(job, found.pictures)
                self.log.take_in(job, owner, found.record, params, self._result(found, deltas, kept))
            except BaseException:
                self.store.delete_run(job)
                for name in kept:
                    self.store.delete_delta(name)
                raise
        return job

    def _result(self, found: RunFile, deltas: list[Delta], kept: list[str]) -> dict[str, Any] | None:
        if not deltas:
            return None if found.record["state"] == State.FAILED else {"discarded": True, "from": found.record["run"]}
        prints = [delta.fingerprint for delta in deltas]
        known = {"scalars": found.record["scalars"], "from": found.record["run"], "fingerprints": prints}
        return {"results": [f"result-{n}" for n in range(len(deltas))], "kept": kept, **known}

    def _checked_settings(self, found: RunFile) -> dict[str, Any]:
        """Of a base that is here with the very same weights, and a method that takes such knobs."""
        record = found.record
        base, method = record["base"], record["method"]
        if base not in bases and not (self.store.bases / f"{base}.safetensors").exists():
            raise Mismatch(
                f"this run is of the model {base}, which is not here; import that model under this name first"
            )
        if self.models.fingerprint(base) != record["fingerprint"]:
            raise Mismatch(f"this run was made on other weights than {base} has here, so its delta would not fit")
        if method not in methods:
            raise UserError(f"this run was made by the method {method!r}, which this version does not have")
        target = record["target"]
        try:
            check_target(target)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise DamagedFile(f"the record in this zip does not say what was forgotten; {WAY_OUT}") from error
        knobs = values(build(methods[method], record["knobs"]))
        return {"base": base, "method": method, "knobs": knobs, "deltas": record["deltas"], "target": target}

    def _checked_delta(self, path: Path, found: RunFile, params: dict[str, Any]) -> Delta:
        """One that fits the base, number by number. Its card is written anew from what was checked."""
        base = params["base"]
        delta, state = Delta.load(path), self.models.base(base).state_dict()
        if delta.card.base_name != base or delta.card.base != self.models.fingerprint(base):
            raise Mismatch(f"a delta in this zip was made for other weights than {base} has here")
        if delta.card.op != "add" or delta.card.role != "forget":
            raise DamagedFile(f"a delta in this zip is no erasure of a generator; {WAY_OUT}")
        for name, change in delta.tensors.items():
            fits = name in state and state[name].shape == change.shape and change.is_floating_point()
            if not fits or not torch.isfinite(change).all():
                raise DamagedFile(f"a delta in this zip does not fit {base} at {name[:80]}; {WAY_OUT}")
        words = {name: str(getattr(delta.card, name))[:300] for name in ("request", "codes", "gives")}
        card = Card(
            knobs=params["knobs"],
            weights=delta.fingerprint,
            base=delta.card.base,
            base_name=base,
            method=params["method"],
            on_top_of=tuple(params["deltas"]),
            scalars=found.record["scalars"],
            created=datetime.fromtimestamp(found.record["times"][0]).isoformat(timespec="seconds"),
            **words,
        )
        return Delta(card, delta.tensors)


def check_target(described: dict[str, Any]) -> None:
    """One that a run can have been about, with seeds that can be drawn again."""
    if described["kind"] not in ("Seeds", "Labels", "People", "Photo"):
        raise ValueError("an unknown kind")
    match revive(described):
        case Seeds(seeds):
            _check_seeds(seeds)
        case Labels() as labels:
            for one in (labels, *labels.also, *labels.keep):
                _check_seeds((*one.having, *one.lacking, *one.chosen))
        case People():
            for person in described["people"]:
                check_target(person)


def _check_seeds(seeds: Any) -> None:
    if not isinstance(seeds, tuple) or not all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds):
        raise ValueError("seeds that are no whole numbers")
