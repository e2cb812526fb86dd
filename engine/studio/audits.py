"""Did it really forget? An audit is a run: attacks on an erasure, kept or not, and a report that stays with the run.

What was erased is known from the run that made the erasure (labels, seeds). Of a photo nobody keeps more than a
fingerprint, so it is given again and is in memory only while the audit goes on; its pictures are never written.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from engine.core.joblog import JobLog, Row
from engine.core.jobs import Runner
from engine.core.knobs import build, values
from engine.core.labelbook import LabelBook
from engine.core.targets import Labels, Photo, Seeds, Target
from engine.delta import Card, Delta, compose
from engine.files import atomic
from engine.inversion.photo import aligned, projection_for
from engine.models import Models
from engine.requests import prepare
from engine.store import Store
from engine.studio.forgetting import LOCAL, describe, revive

KIND = "audit"
RUN_IN_NAME = re.compile(r"-([0-9a-f]{12})(-\d+)?$")


@dataclass(frozen=True)
class Subject:
    """An erasure that can be audited: a kept one by its name, or the result of a run that waits for a decision."""

    name: str
    title: str
    base: str
    is_kept: bool
    wants: str  # "" when it is known what to look for; "person" when a photo or a seed must be given
    method: str


class Audits:
    """The part of the Studio that attacks what it has made."""

    store: Store
    models: Models
    log: JobLog
    labels: LabelBook
    runner: Runner
    device: torch.device
    machine: Callable[[], dict[str, Any]]
    is_of_faces: Callable[[str], bool]
    portrait_pixels: Callable[..., Any]
    drop_portrait: Callable[..., None]

    def audit_budget(self) -> type:
        """The class of knobs, with its presets."""
        return Budget

    def audit_subjects(self, *, owner: str | None = LOCAL) -> list[Subject]:
        """Results that wait for a decision, then kept erasures, newest first. No owner means everybody's."""
        rows = [row for row in self.log.rows(owner) if row.kind == "forget" and not row.state.is_live]
        cards = {row.id: card for row in rows if (card := self.store.waiting_card(row.id)) is not None}
        kept = {name: card for name, card in self.store.cards().items() if card.role == "forget"}
        cards |= dict(reversed(kept.items()))
        return [self._subject(name, card, name in kept, owner) for name, card in cards.items()]

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
        if target is None:
            raise UserError(
                "whom to look for was never stored: give the person's photo, or the seed of a generated one"
            )
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

    def audit_owner(self, subject: str) -> str:
        """Whose run made an erasure; the person at this machine where nobody knows any more."""
        try:
            return self.log.get(_run_of(subject)).owner
        except UserError:
            return LOCAL

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
        aim = yield from self._aimed(before, card.base_name, target)
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

    def _aimed(self, before: torch.nn.Module, base: str, target: Target) -> Task:
        if isinstance(target, Labels):
            return (yield from watch(feature_aim(before, target)))
        request = yield from watch(prepare(before, target))
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
            "verdict": headline(aim.words, outcome.findings),
            "findings": outcome.findings,
            "kept": outcome.kept,
            "integrity": [asdict(fact) for fact in facts],
            "budget": params["knobs"],
            "command": command(params["subject"], params["target"], changed),
            "made": datetime.now().isoformat(timespec="seconds"),
            "seconds": seconds,
            "machine": {"device": machine["device"], "torch": machine["torch"]},
        }

    # Whom or what

    def _subject(self, name: str, card: Card, is_kept: bool, owner: str | None) -> Subject:
        wants = "" if self._target_of(name, card, owner) else "person"
        return Subject(name, card.request, card.base_name, is_kept, wants, card.method)

    def _delta_of(self, subject: str, owner: str) -> Delta:
        """A kept erasure by its name, or the waiting result of a run by the run's id."""
        if (self.store.deltas / f"{subject}.safetensors").exists():
            return self.store.delta(subject)
        row = self.log.get(subject, owner)
        results = [delta for delta in self.store.results(row.id) if delta.card.role == "forget"]
        if results:
            return results[0]
        kept = (row.result or {}).get("kept", ())
        if kept:
            return self._delta_of(kept[0], owner)
        raise UserError(f"run {subject} has no result to audit; repeat it, or choose another erasure")

    def _target_of(self, subject: str, card: Card, owner: str | None) -> Target | None:
        """What was erased, as far as it was stored: by the run that made the erasure, else by the visitor's labels."""
        try:
            described = self.log.get(_run_of(subject), owner).params["target"]
        except UserError:
            described = {}
        target = revive(described) if described else None
        if target is not None or card.method != "feature":
            return target
        labels = self.labels.target(owner or LOCAL, card.base_name, card.request)
        return labels if labels.having and labels.lacking else None


def _run_of(subject: str) -> str:
    """The run in an erasure's name, or the run itself."""
    match = RUN_IN_NAME.search(subject)
    return match[1] if match else subject
