"""Did it really forget? An audit is a run: attacks on an erasure, kept or not, and a report that stays with the run.

What was erased is known from the run that made the erasure (labels, seeds). Of a photo nobody keeps more than a
fingerprint, so it is given again and is in memory only while the audit goes on; its pictures are never written.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import torch

from engine.audit import integrity
from engine.audit.aim import Aim
from engine.audit.attack import Budget
from engine.audit.course import Outcome, course
from engine.audit.face import face_aim
from engine.audit.feature import feature_aim
from engine.audit.finding import Finding
from engine.audit.report import FORMAT, command, html
from engine.audit.verdict import headline, plain
from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task, watch
from engine.core.joblog import Row
from engine.core.jobs import Runner
from engine.core.knobs import build, values
from engine.core.targets import Labels, Photo, Seeds, Target
from engine.delta import Delta, compose
from engine.files import atomic
from engine.inversion.photo import aligned, projection_for
from engine.models import Models
from engine.requests import prepare
from engine.studio.forgetting import LOCAL, describe, revive
from engine.studio.subjects import Subjects

KIND = "audit"


class Audits(Subjects):
    """The part of the Studio that attacks what it has made."""

    models: Models
    runner: Runner
    device: torch.device
    machine: Callable[[], dict[str, Any]]
    is_of_faces: Callable[[str], bool]
    portrait_pixels: Callable[..., Any]
    drop_portrait: Callable[..., None]

    def audit_budget(self) -> type:
        """The class of knobs, with its presets."""
        return Budget

    def audit(
        self,
        subject: str,
        knobs: Mapping[str, Any] | None = None,
        *,
        target: Target | None = None,
        owner: str = LOCAL,
    ) -> str:
        """Queues an audit and gives the job's id. `target` says whom to look for where the record does not know."""
        delta = self._delta_of(subject, owner)
        target = target or self._target_of(subject, delta.card, owner)
        if delta.card.method == "feature" and not isinstance(target, Labels):
            words = f"the labels of “{delta.card.request}” are not here"
            raise UserError(f"{words}: label it, or load its file of labels, on the Feature page first")
        if target is None:
            raise UserError("whom to look for was never stored: give the person's photo, or a generated one's seed")
        if isinstance(target, Seeds) and len(target.seeds) != 1:
            target = Seeds(tuple(target.seeds[:1]))
        params = {
            "base": delta.card.base_name,
            "method": KIND,
            "subject": subject,
            "knobs": values(build(Budget, dict(knobs or {}))),
            "deltas": list(delta.card.on_top_of),
            "target": describe(target),
        }
        return self.begin_audit(params, owner, target=target)

    def audit_portrait(
        self, subject: str, token: str, face: int, knobs: Mapping[str, Any] | None = None, *, owner: str = LOCAL
    ) -> str:
        """An audit that looks for a person on the desk (see `open_portrait`); the photo leaves the desk."""
        job = self.audit(subject, knobs, target=Photo(self.portrait_pixels(token, owner=owner), face), owner=owner)
        self.drop_portrait(token, owner=owner)
        return job

    def begin_audit(
        self, params: dict[str, Any], owner: str, job: str | None = None, *, target: Target | None = None
    ) -> str:
        """A new audit with these settings, or an interrupted one once more."""
        target = target or revive(params["target"])
        if target is None:
            raise UserError("the photo of this audit was never stored; start it again on the Audit page with the photo")
        delta = self._delta_of(params["subject"], owner)
        ticket = job or self.log.add(owner, KIND, f"Audit: {delta.card.request}", params)

        def finish(report: dict[str, Any], partial: bool) -> dict[str, Any]:
            with atomic(self.store.run_folder(ticket) / "report.json") as file:
                file.write(json.dumps(report, indent=1).encode())
            return {"words": report["verdict"][0], "verdict": report["verdict"], "scalars": {}, "partial": partial}

        self.runner.submit(ticket, lambda: self._audited(ticket, params, delta, target), finish)
        return ticket

    # What was found

    def audits(self, *, owner: str = LOCAL) -> list[Row]:
        """Those with a report, newest first."""
        rows = (row for row in self.log.rows(owner) if row.kind == KIND)
        return [row for row in rows if (self.store.run_folder(row.id) / "report.json").is_file()]

    def audit_report(self, job: str, *, owner: str = LOCAL) -> dict[str, Any]:
        """The report as plain values."""
        self.log.get(job, owner)
        path = self.store.run_folder(job) / "report.json"
        if not path.is_file():
            raise UserError(f"run {job} left no report; the Audit page lists those that did")
        return json.loads(path.read_text())

    def audit_html(self, job: str, *, owner: str = LOCAL) -> str:
        """The report as one file that needs nothing else."""
        return html(self.audit_report(job, owner=owner), self.audit_pictures(job, owner=owner))

    def audit_pictures(self, job: str, *, owner: str = LOCAL) -> dict[str, dict[str, bytes]]:
        """The best try of each attack on either side, as webp; none where a person was given by photo."""
        self.log.get(job, owner)
        found: dict[str, dict[str, bytes]] = {}
        for path in sorted(self.store.run_folder(job).glob("*-best-*.webp")):
            name, _, side = path.stem.partition("-best-")[2].rpartition("-")
            found.setdefault(name, {})[side] = path.read_bytes()
        return found

    # The run itself

    def _audited(self, job: str, params: dict[str, Any], delta: Delta, target: Target) -> Task:
        begun, budget, card = time.monotonic(), build(Budget, params["knobs"]), delta.card
        present = [name for name in card.on_top_of if name in self.store.cards()]
        base, before = self.models.base(card.base_name), self.models.with_deltas(card.base_name, present)
        yield Progress(0, 100, note="fingerprints")
        facts = integrity.weights(base, delta)
        facts += integrity.applied(params["subject"], card.on_top_of, present, self.store.active(card.base_name))
        after = compose(before, [delta]).eval().requires_grad_(False)
        aim = yield from self._aimed(before, card.base_name, target, any_judge=budget.any_judge)
        if aim is None or self.runner.is_stopping(job):
            return
        facts += integrity.code(aim.codes, card.codes) if aim.kind == "face" else []
        known = self._findings(job)

        def found(finding: Finding) -> None:
            known[finding.name] = plain(finding)
            if not isinstance(target, Photo):
                for side, pixels in finding.pictures.items():
                    self.store.preview(job, 0, f"best-{finding.name}-{side}", pixels)
            with atomic(self.store.run_folder(job) / "findings.json") as file:
                file.write(json.dumps(known).encode())

        outcome: Outcome = yield from watch(course(before, after, aim, budget, known, found))
        yield Done(self._report(params, delta, aim, outcome, facts, time.monotonic() - begun))

    def _findings(self, job: str) -> dict[str, dict[str, Any]]:
        """What an audit that was cut off had found."""
        path = self.store.run_folder(job) / "findings.json"
        return json.loads(path.read_text()) if path.is_file() else {}

    def _aimed(self, before: torch.nn.Module, base: str, target: Target, *, any_judge: bool) -> Task:
        if isinstance(target, Labels):
            return (yield from watch(feature_aim(before, target, any_judge=any_judge)))
        request = yield from watch(prepare(before, target, mirrors=False))
        if request is None:
            return None
        of_faces = self.is_of_faces(base)
        if isinstance(target, Photo):
            photo = aligned(target.pixels, target.face, projection_for(before).size, before.w_avg)
            return face_aim(before, request.forget.w, "this person", photo=photo, of_faces=of_faces)
        words = "this person" if of_faces else "this sample"
        return face_aim(before, request.forget.w[:1], words, of_faces=of_faces)

    def _report(
        self,
        params: Mapping[str, Any],
        delta: Delta,
        aim: Aim,
        outcome: Outcome,
        facts: Sequence[integrity.Fact],
        seconds: float,
    ) -> dict[str, Any]:
        card, machine, usual = delta.card, self.machine(), values(Budget())
        changed = [(name, value) for name, value in params["knobs"].items() if value != usual[name]]
        return {
            "format": FORMAT,
            "subject": {
                "name": params["subject"],
                "request": card.request,
                "base": card.base_name,
                "fingerprint": card.base,
                "method": card.method,
                "on_top_of": list(card.on_top_of),
            },
            "aim": {name: getattr(aim, name) for name in ("words", "kind", "attacker", "judge", "bar", "size")},
            "verdict": [*headline(aim.words, outcome.findings), *aim.caveats],
            "findings": outcome.findings,
            "kept": outcome.kept,
            "integrity": [asdict(fact) for fact in facts],
            "budget": params["knobs"],
            "command": command(params["subject"], params["target"], changed),
            "made": datetime.now().isoformat(timespec="seconds"),
            "seconds": seconds,
            "machine": {"device": machine["device"], "torch": machine["torch"]},
        }
