"""What each call answers with: plain frozen values that a page, a command line and a test can read."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Grades:
    """How far a forgetting went. `influence` is None where only a twin run without the task could tell."""

    access: bool  # G0: serving cannot run the task
    storage: bool  # G1: no byte that only this task owned remains in the serving state
    influence: bool | None  # G2: the state equals one that never saw the task


@dataclass(frozen=True)
class Capabilities:
    """What a method promises, before it is measured."""

    needs_task: bool  # whether an answer needs to be told the task
    exact: bool  # whether learning leaves old tasks' bytes alone and restoring returns them bit for bit
    order_free: bool  # whether tasks read nothing of each other
    trained_backbone: bool
    note: str = ""


@dataclass(frozen=True)
class Learned:
    """`drift`: for every task that was live before, the largest change of a logit on the reference batch."""

    task: int
    loss: float
    accuracy: float  # on validation
    seconds: float
    drift: Mapping[int, float]
    stopped: bool = False
    notes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bits:
    """Size of a task's deposit by kind. `coded` is the payload after deflate: masks at density 1/2 do not shrink."""

    mask: int = 0
    index: int = 0
    weights: int = 0
    norm: int = 0
    head: int = 0
    snapshot: int = 0
    coded: int = 0

    @property
    def total(self) -> int:
        return self.mask + self.index + self.weights + self.norm + self.head + self.snapshot


@dataclass(frozen=True)
class Forgot:
    """`also` are the dependents that a cascade took along, in the order they went."""

    task: int
    mode: str
    before: str  # state hashes
    after: str
    vault: Path
    bits: Bits
    grades: Grades
    kept_for: Mapping[int, str] = field(default_factory=dict)  # tasks that still read bytes of this one, and which
    seconds: float = 0.0
    also: tuple["Forgot", ...] = ()


@dataclass(frozen=True)
class Restored:
    """`equal`: every byte the task reads is as it was when it was forgotten."""

    task: int
    difference: float  # largest change of a logit on the reference batch
    equal: bool
    overlay: bool  # whether its old place was taken, so that it runs on bytes of its own
    before: str
    after: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Answer:
    """`task` is a number, or UNKNOWN with no labels. `by` says how the task was found; `margin` is p1 - p2."""

    task: int | str
    by: str
    labels: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    margin: tuple[float, ...] = ()
    belief: Mapping[int, float] = field(default_factory=dict)


def tell(receipt: Learned | Forgot | Restored) -> str:
    """A receipt in a sentence or two."""
    match receipt:
        case Learned():
            moved = {task: by for task, by in receipt.drift.items() if by > 0}
            others = "; no logit of another task changed" if receipt.drift and not moved else ""
            others = f"; logits of others moved by up to {max(moved.values()):.2g}" if moved else others
            early = ", stopped early" if receipt.stopped else ""
            return f"learned task {receipt.task}: {receipt.accuracy:.1%} on validation{early}{others}"
        case Forgot():
            gone = ", ".join(str(each.task) for each in (*receipt.also, receipt))
            left = ", ".join(f"{task} ({why})" for task, why in receipt.kept_for.items())
            kept = f"; kept for task {left}" if left else ""
            size = sum(each.bits.total for each in (*receipt.also, receipt)) / 8
            return f"forgot task {gone}: {size:,.0f} bytes in {receipt.vault.name}{kept}"
        case Restored():
            place = "beside its old place" if receipt.overlay else "in its old place"
            same = "bit for bit" if receipt.equal else f"logits differ by up to {receipt.difference:.2g}"
            return f"restored task {receipt.task} {place}: {same}"


def plain(receipt: Any) -> dict[str, Any]:
    """A receipt for JSON."""
    return _plain(asdict(receipt))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case Path():
            return value.name
        case _:
            return value
