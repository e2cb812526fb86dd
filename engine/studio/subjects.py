"""What can be audited: kept erasures and results that wait, and what is known of whom or what they erased."""

import re
from dataclasses import dataclass

from engine.core.errors import UserError
from engine.core.joblog import JobLog
from engine.core.labelbook import LabelBook
from engine.core.targets import Target
from engine.delta import Card, Delta
from engine.store import Store
from engine.studio.forgetting import LOCAL, revive

RUN_IN_NAME = re.compile(r"-([0-9a-f]{12})(-\d+)?$")


@dataclass(frozen=True)
class Subject:
    """An erasure that can be audited: a kept one by its name, or the result of a run that waits for a decision."""

    name: str
    title: str
    base: str
    is_kept: bool
    wants: str  # "" when it is known what to look for; else "labels", or "person": a photo or a seed must be given
    method: str


class Subjects:
    """The part of the Studio that knows which run made which erasure."""

    store: Store
    log: JobLog
    labels: LabelBook

    def audit_subjects(self, *, owner: str | None = LOCAL) -> list[Subject]:
        """Results that wait for a decision, then kept erasures, newest first. No owner means everybody's."""
        rows = [row for row in self.log.rows(owner) if row.kind == "forget" and not row.state.is_live]
        cards = {row.id: card for row in rows if (card := self.store.waiting_card(row.id)) is not None}
        kept = {name: card for name, card in self.store.cards().items() if card.role == "forget"}
        cards |= dict(reversed(kept.items()))
        return [self._subject(name, card, name in kept, owner) for name, card in cards.items()]

    def audit_owner(self, subject: str) -> str:
        """Whose run made an erasure; the person at this machine where nobody knows any more."""
        try:
            return self.log.get(_run_of(subject)).owner
        except UserError:
            return LOCAL

    def _subject(self, name: str, card: Card, is_kept: bool, owner: str | None) -> Subject:
        wants = "" if self._target_of(name, card, owner) else "labels" if card.method == "feature" else "person"
        return Subject(name, card.request, card.base_name, is_kept, wants, card.method)

    def _delta_of(self, subject: str, owner: str) -> Delta:
        """A kept erasure by its name, or the waiting result of a run by the run's id."""
        if subject in self.store.cards():
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
