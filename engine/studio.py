"""The one door: page, command line and scripts ask here, in plain values, and get plain values back."""

import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine import assets
from engine import device as devices
from engine.core.errors import UserError
from engine.core.events import Task, watch
from engine.core.joblog import JobLog, Row, State
from engine.core.jobs import Runner
from engine.core.knobs import build, values
from engine.core.labelbook import LabelBook
from engine.core.targets import Classes, Labels, Photo, Seeds, Target
from engine.delta import Card, Delta, compose
from engine.generators import bases
from engine.methods import methods
from engine.models import Models, pictures
from engine.requests import prepare
from engine.store import Store

ROOT = Path(__file__).resolve().parents[1] / "checkpoints"
LOCAL = "local"  # owner of everything done without a page


@dataclass(frozen=True)
class BaseInfo:
    """A base as a front end shows it."""

    name: str
    title: str
    licence: str
    missing: tuple[str, ...]  # assets that must be fetched first


class Studio:
    """Models, runs and kept erasures of one data folder on one device."""

    def __init__(self, root: Path = ROOT, device: str = "auto") -> None:
        self.device = devices.choose(device)
        self.store = Store(Path(root))
        self.log = JobLog(self.store.database)
        self.log.mark_dead()
        self.labels = LabelBook(self.store.database)
        self.runner = Runner(self.log, self.store)
        self.models = Models(self.store, self.device)

    def claim(self) -> None:
        """Makes this process the only server on its data folder; a second one is refused."""
        self.store.claim()

    def close(self) -> None:
        self.runner.close()
        self.log.close_session()

    # Models

    def bases(self) -> list[BaseInfo]:
        return [
            BaseInfo(name, base.title, base.licence, tuple(need for need in base.needs if not assets.is_present(need)))
            for name, base in bases.items()
        ]

    def default_base(self) -> str:
        """The photorealistic base when its weights are there, else the tiny one."""
        ready = {info.name for info in self.bases() if not info.missing}
        return "ffhq" if "ffhq" in ready else "tiny"

    def sizes(self, base: str) -> list[int]:
        return list(self.models.base(base).sizes)

    def facts(self, base: str) -> dict[str, Any]:
        """What one may want to know of a model before using it."""
        model = self.models.base(base)
        return {
            "sizes": list(model.sizes),
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "bytes": sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values()),
            "fingerprint": self.models.fingerprint(base),
            "is_3d": model.is_3d,
        }

    def sample(
        self,
        base: str,
        seeds: Sequence[int],
        deltas: Sequence[str] = (),
        *,
        psi: float = 0.7,
        size: int | None = None,
        yaw: float = 0.0,
    ) -> list[np.ndarray]:
        """Pictures of seeds, HWC uint8. The same seed gives the same picture in any batch."""
        model = self.models.with_deltas(base, deltas)
        with torch.inference_mode():
            w = model.map(model.sample_z([_seed(seed) for seed in seeds]), psi=psi)
        return pictures(model, w, size=size, yaw=yaw)

    def between(
        self,
        base: str,
        first: int,
        last: int,
        count: int = 7,
        deltas: Sequence[str] = (),
        *,
        psi: float = 0.7,
        size: int | None = None,
    ) -> list[np.ndarray]:
        """A strip of pictures on the straight line in W between two seeds."""
        model = self.models.with_deltas(base, deltas)
        with torch.inference_mode():
            a, b = model.map(model.sample_z([_seed(first), _seed(last)]), psi=psi)
            w = torch.stack([torch.lerp(a, b, t.item()) for t in torch.linspace(0, 1, count)])
        return pictures(model, w, size=size)

    # Forgetting

    def methods(self, base: str) -> dict[str, type]:
        """Those that accept this base."""
        model = self.models.base(base)
        return {name: method for name, method in methods.items() if isinstance(model, method.accepts)}

    def method(self, name: str) -> type:
        """One method's class: its knobs, its title and its words, without loading a model."""
        return methods[name]

    def forget(
        self,
        base: str,
        target: Target,
        method: str,
        knobs: dict[str, Any] | None = None,
        *,
        owner: str = LOCAL,
        deltas: Sequence[str] = (),
    ) -> str:
        """Queues a forgetting and gives the job's id. The target is only in memory: the log gets words."""
        chosen = build(methods[method], knobs or {})
        params = {
            "base": base,
            "method": method,
            "knobs": values(chosen),
            "deltas": list(deltas),
            "target": describe(target),
        }
        return self._submit(params, owner, target=target)

    def resume(self, job: str, *, owner: str = LOCAL) -> str:
        """Goes on with an interrupted run from its last snapshot, under the same id."""
        row = self.log.get(job, owner)
        if row.state is not State.INTERRUPTED:
            raise UserError(f"run {job} is {row.state}; only an interrupted run can be resumed")
        if self.store.read_request(job) is None and revive(row.params["target"]) is None:
            raise UserError("the photo of this run was never stored, so it cannot go on: start it again with the photo")
        return self._submit(row.params, owner, job=job)

    def repeat(self, job: str, *, owner: str = LOCAL) -> str:
        """The same run again as a new one."""
        params = self.log.get(job, owner).params
        target = revive(params["target"])
        if target is None:
            raise UserError("the photo of this run was not stored; start a new run with the photo to repeat it")
        return self._submit(params, owner, target=target)

    def _submit(
        self, params: dict[str, Any], owner: str, *, target: Target | None = None, job: str | None = None
    ) -> str:
        ticket: dict[str, str] = {}

        def start() -> Task:
            return self._forget(ticket["job"], params, target)

        def finish(deltas: tuple[Delta, ...], partial: bool) -> Any:
            stamped = [self._stamp(delta, params) for delta in deltas]
            self.store.forget_request(ticket["job"])
            names = self.store.put_result(ticket["job"], stamped)
            return {"results": names, "scalars": dict(stamped[0].card.scalars), "partial": partial}

        title = f"Forget {params['target']['words']}"
        ticket["job"] = job or self.log.add(owner, "forget", title, params)
        self.runner.submit(ticket["job"], start, finish)
        return ticket["job"]

    def _forget(self, job: str, params: dict[str, Any], target: Target | None) -> Task:
        base = self.models.with_deltas(params["base"], params["deltas"])
        request = self.store.read_request(job)
        if request is None:
            request = yield from watch(prepare(base, target or revive(params["target"])))
            self.store.save_request(job, request)
        method = build(methods[params["method"]], params["knobs"])
        yield from method.run(base, request.to(self.device), self.store.read_snapshot(job))

    def _stamp(self, delta: Delta, params: dict[str, Any]) -> Delta:
        card = replace(
            delta.card,
            base=self.models.fingerprint(params["base"]),
            base_name=params["base"],
            method=params["method"],
            on_top_of=tuple(params["deltas"]),
            created=datetime.now().isoformat(timespec="seconds"),
        )
        return Delta(card, delta.tensors)

    # Runs

    def runs(self, owner: str | None = LOCAL) -> list[Row]:
        return self.log.rows(owner)

    def run(self, job: str, owner: str | None = LOCAL) -> Row:
        return self.log.get(job, owner)

    def follow(self, job: str, since: int = 0, *, owner: str | None = LOCAL, patience: float | None = None) -> Iterator:
        """Replays a run's events, then follows it; a second reader sees the same."""
        self.log.get(job, owner)
        yield from self.runner.follow(job, since, patience)

    def wait(self, job: str) -> Row:
        return self.runner.wait(job)

    def stop(self, job: str, *, keep: bool, owner: str | None = LOCAL) -> None:
        self.log.get(job, owner)
        self.runner.stop(job, keep=keep)

    def place(self, job: str) -> int:
        """How many jobs, of anybody, are before this one."""
        return self.log.place(job)

    def preview_path(self, job: str, name: str, owner: str | None = LOCAL) -> Path:
        self.log.get(job, owner)
        return self.store.run_folder(job) / Path(name).name

    def preview(self, job: str, name: str, owner: str | None = LOCAL) -> bytes:
        """A picture that a run has shown, as webp."""
        path = self.preview_path(job, name, owner)
        if not path.is_file():
            raise UserError(f"the picture {path.name} of run {job} is gone; repeat the run to see it again")
        return path.read_bytes()

    def sample_result(
        self,
        job: str,
        seeds: Sequence[int],
        *,
        psi: float = 0.7,
        size: int | None = None,
        owner: str | None = LOCAL,
    ) -> list[np.ndarray]:
        """Pictures of seeds with a run's result applied that is not kept yet: what keeping it would do."""
        params = self.log.get(job, owner).params
        results = [delta for delta in self.store.results(job) if delta.card.role == "forget"]
        if not results:
            raise UserError(f"run {job} has no result to look at")
        model = compose(self.models.with_deltas(params["base"], params["deltas"]), results).eval()
        with torch.inference_mode():
            w = model.map(model.sample_z([_seed(seed) for seed in seeds]), psi=psi)
        return pictures(model, w, size=size)

    def delete_run(self, job: str, *, owner: str | None = LOCAL) -> None:
        if self.log.get(job, owner).state.is_live:
            raise UserError(f"run {job} is still going; stop it first")
        self.store.delete_run(job)
        self.log.delete(job)

    def keep(self, job: str, *, owner: str | None = LOCAL) -> list[str]:
        """Keeps a run's result as erasures of the base and applies the forgetting ones."""
        row = self.log.get(job, owner)
        results = self.store.results(job)
        if not results:
            raise UserError(f"run {job} has no result to keep")
        names = [self.store.put(delta) for delta in results]
        forgetting = [name for name, delta in zip(names, results, strict=True) if delta.card.role == "forget"]
        base = row.params["base"]
        self.store.activate(base, [*self.store.active(base), *forgetting])
        self.store.discard_result(job)
        self.log.set_result(job, {**(row.result or {}), "kept": names})
        return names

    def discard(self, job: str, *, owner: str | None = LOCAL) -> None:
        """Drops a run's result; its record stays."""
        row = self.log.get(job, owner)
        self.store.discard_result(job)
        self.log.set_result(job, {**(row.result or {}), "discarded": True})

    # Kept erasures

    def deltas(self, base: str | None = None) -> dict[str, Card]:
        return self.store.cards(base)

    def active(self, base: str) -> list[str]:
        return self.store.active(base)

    def activate(self, base: str, names: Sequence[str]) -> None:
        """Applies exactly these; leaving one out is taking it back."""
        self.store.activate(base, names)

    def delete_delta(self, name: str) -> None:
        self.store.delete_delta(name)
        self.models.drop_composed(lambda key: name in key[1])

    # The machine

    def machine(self) -> dict[str, Any]:
        """What this studio runs on, for the start page and `doctor`."""
        disk = shutil.disk_usage(self.store.root)
        return {
            "device": str(self.device),
            "cores": os.cpu_count(),
            "free disk GB": round(disk.free / 1e9, 1),
            "free memory GB": _free_memory(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "data folder": str(self.store.root),
        }


def describe(target: Target) -> dict[str, Any]:
    """What the log may know of a target: words and plain numbers, never a photo."""
    match target:
        case Photo(_, _, words):
            return {"kind": "Photo", "words": words}
        case Labels():
            return {"kind": "Labels", "words": f"“{target.name}”", **asdict(target)}
        case Seeds(seeds):
            return {"kind": "Seeds", "words": f"{len(seeds)} generated samples", "seeds": list(seeds)}
        case Classes(indices, data):
            return {"kind": "Classes", "words": f"{len(indices)} classes of {data}", **asdict(target)}
        case _:
            return {"kind": type(target).__name__, "words": str(target)}


def revive(described: dict[str, Any]) -> Target | None:
    """The target again, where the log knew enough; None for a photo."""
    plain = {
        name: tuple(v) if isinstance(v, list) else v for name, v in described.items() if name not in ("kind", "words")
    }
    kinds = {"Labels": Labels, "Seeds": Seeds, "Classes": Classes}
    return kinds[described["kind"]](**plain) if described["kind"] in kinds else None


def _seed(seed: int) -> int:
    if not 0 <= int(seed) < 2**63:
        raise UserError(f"seed {seed}: must be a whole number from 0 to 2^63 - 1")
    return int(seed)


def _free_memory() -> float | None:
    try:
        return round(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)
    except (ValueError, OSError):
        return None
