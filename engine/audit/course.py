"""One attack after another, then what should have stayed: the whole audit as one task."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from engine.audit import attacks
from engine.audit.aim import Aim
from engine.audit.attack import Attack, Budget, part
from engine.audit.finding import Finding
from engine.audit.keeping import Kept, keeping
from engine.audit.verdict import plain
from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task, watch

STOPPED = "the audit was stopped before it was done"
PER_CENT = 100


@dataclass(frozen=True)
class Outcome:
    """Plain findings in the order they were made, and what should have stayed."""

    findings: list[dict[str, Any]]
    kept: list[dict[str, Any]]


def course(
    before: nn.Module,
    after: nn.Module,
    aim: Aim,
    budget: Budget,
    known: Mapping[str, dict[str, Any]] | None = None,
    found: Callable[[Finding], None] = lambda finding: None,
) -> Task:
    """Done holds an Outcome. `known` are findings of an audit that was cut off: they are not made again. `found` is
    told of every new one. A finding that was stopped half-way had no equal budget and does not count."""
    findings, known = [], dict(known or {})
    planned: list[Attack] = [attack(budget) for attack in sorted(attacks.values(), key=lambda attack: attack.place)]
    count, is_stopped = len(planned) + 1, False

    def watched(task: Task, number: int, note: str) -> Any:
        """The task's result, and whether it was stopped."""
        made = yield from watch(part(task, number, count, note, PER_CENT))
        return made, bool((yield Progress(round(PER_CENT * (number + 1) / count), PER_CENT, note=note)))

    for number, attack in enumerate(planned):
        if attack.name in known:
            findings.append(known[attack.name])
            continue
        if not is_stopped:
            making = _made(attack, before, after, aim)
            finding, is_stopped = yield from watched(making, number, attack.title.lower())
        if is_stopped:
            finding = attack.not_made(aim, STOPPED)
        else:
            found(finding)
        findings.append(plain(finding))
    kept: list[Kept] = []
    if not is_stopped:
        looking = keeping(before, after, aim, budget)
        kept, is_stopped = yield from watched(looking, len(planned), "what should have stayed")
    yield Done(Outcome(findings, [] if is_stopped else [one.plain() for one in kept]))


def _made(attack: Attack, before: nn.Module, after: nn.Module, aim: Aim) -> Task:
    """An attack that meets something it cannot do says so and costs only itself."""
    try:
        yield Done((yield from watch(attack.run(before, after, aim))))
    except UserError as error:
        yield Done(attack.not_made(aim, str(error)))
