"""Runs that make a model forget: queued, resumed, repeated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

import torch

from engine.core.errors import UserError
from engine.core.events import Done, Task, watch
from engine.core.joblog import JobLog, State
from engine.core.jobs import Runner
from engine.core.knobs import build, values
from engine.core.targets import Classes, Labels, People, Photo, Seeds, Target
from engine.data import Request
from engine.delta import Delta, compose, fingerprint
from engine.methods import methods
from engine.models import Models
from engine.requests import prepare
from engine.store import Store

LOCAL = "local"  # owner of everything done without a page


class Forgetting:
    """The part of the Studio that starts methods."""

    store: Store
    models: Models
    log: JobLog
    runner: Runner
    device: torch.device
    begin: dict[str, Callable[..., str]]  # how runs of other kinds are begun: (params, owner[, job]) -> job

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
        if row.kind in self.begin:
            return self.begin[row.kind](row.params, owner, job)
        if (whole := self.store.whole_result(job)) is not None:  # it was killed between its result and its record
            self.log.mark(job, State.DONE, come_from=[State.INTERRUPTED], error=None, result=whole)
            self.store.ended(self.log.get(job))
            return job
        if self.store.read_request(job) is None and revive(row.params["target"]) is None:
            raise UserError("the photo of this run was never stored, so it cannot go on: start it again with the photo")
        return self._submit(row.params, owner, job=job)

    def repeat(self, job: str, *, owner: str = LOCAL) -> str:
        """The same run again as a new one."""
        row = self.log.get(job, owner)
        if row.kind in self.begin:
            return self.begin[row.kind](row.params, owner)
        params = row.params
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

        def finish(outcome: tuple[tuple[Delta, ...], dict[str, Any]], partial: bool) -> Any:
            deltas, verdict = outcome
            return self.store.put_result(ticket["job"], deltas, {"verdict": verdict, "partial": partial})

        title = f"Forget {params['target']['words']}"
        ticket["job"] = job or self.log.add(owner, "forget", title, params)
        self.runner.submit(ticket["job"], start, finish)
        return ticket["job"]

    def _forget(self, job: str, params: dict[str, Any], target: Target | None) -> Task:
        base = self.models.with_deltas(params["base"], params["deltas"])
        request = self.store.read_request(job)
        if request is None:
            request = yield from watch(prepare(base, target or revive(params["target"])))
            if self.runner.is_stopping(job):  # a half-found face is nothing to keep
                return
            self.store.save_request(job, request)
        method, request = build(methods[params["method"]], params["knobs"]), request.to(self.device)
        deltas = yield from watch(method.run(base, request, self.store.read_snapshot(job)))
        deltas = tuple(self._stamp(base, deltas, params))
        yield Done((deltas, (yield from self._check(job, method, base, deltas, request))))

    def _check(self, job: str, method: Any, base: Any, deltas: Sequence[Delta], request: Request) -> Task:
        """What the method did, measured while the codes are still there. A check that cannot be made, or was not
        waited for, costs only itself."""
        if not hasattr(method, "check"):
            return {}
        if self.runner.is_stopping(job):
            return {"unchecked": "the run was stopped before the check"}
        self.store.put_result(job, deltas, {"verdict": {"unchecked": "the check did not end"}, "partial": False})
        try:
            return (yield from watch(method.check(base, deltas, request)))
        except UserError as error:
            return {"unchecked": str(error)}

    def _stamp(self, base: Any, deltas: Sequence[Delta], params: dict[str, Any]) -> Iterator[Delta]:
        """What the Studio knows of them: where they belong, and exactly which weights they give there."""
        for delta in deltas:
            base = compose(base, [delta])
            card = replace(
                delta.card,
                weights=delta.fingerprint,
                base=self.models.fingerprint(params["base"]),
                base_name=params["base"],
                method=params["method"],
                on_top_of=tuple(params["deltas"]),
                gives=fingerprint(base),
                created=datetime.now().isoformat(timespec="seconds"),
            )
            yield Delta(card, delta.tensors)


def describe(target: Target) -> dict[str, Any]:
    """What the log may know of a target: words and plain numbers, never a photo."""
    match target:
        case Photo(words=words):
            return {"kind": "Photo", "words": words}
        case People(people):
            each = [describe(person) for person in people]
            return {"kind": "People", "words": ", ".join(one["words"] for one in each), "people": each}
        case Labels():
            return {"kind": "Labels", "words": f"“{target.name}”", **asdict(target)}
        case Seeds(seeds):
            words = "1 generated sample" if len(seeds) == 1 else f"{len(seeds)} generated samples"
            return {"kind": "Seeds", "words": words, "seeds": list(seeds)}
        case Classes(indices, data):
            return {"kind": "Classes", "words": f"{len(indices)} classes of {data}", **asdict(target)}
        case _:
            return {"kind": type(target).__name__, "words": str(target)}


def revive(described: dict[str, Any]) -> Target | None:
    """The target again, where the log knew enough; None for a photo."""
    if described["kind"] == "People":
        each = tuple(revive(one) for one in described["people"])
        return People(each) if all(each) else None
    plain = {
        name: tuple(v) if isinstance(v, list) else v for name, v in described.items() if name not in ("kind", "words")
    }
    kinds = {"Labels": Labels, "Seeds": Seeds, "Classes": Classes}
    return kinds[described["kind"]](**plain) if described["kind"] in kinds else None
