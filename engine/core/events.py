"""What everything long yields. Command line, page and tests read the same stream.

A task is a Python generator of events. Its driver may answer a `yield` with `True`, which means
"stop here and keep what there is": the task then leaves its loop and ends with `Done` as usual.
A plain `for` loop answers nothing, so the task runs to its end. To stop and discard, close it.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """One step further. `scalars` by the paper's names; `images` are HWC uint8 arrays, sent rarely."""

    step: int
    total: int
    scalars: Mapping[str, float] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""  # what is being done, in the user's words ("looking for the face")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a task needs to go on from `step` in another process: flat names to tensors."""

    step: int
    tensors: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """The end. A method's result is a tuple of deltas, a metric's a dict, an inverter's a LatentBatch."""

    result: Any


Event = Progress | Snapshot | Done
Task = Generator[Event, bool | None, None]


def result(task: Task) -> Any:
    """Runs a task to its end without watching and gives its result."""
    outcome = None
    for event in task:
        if isinstance(event, Done):
            outcome = event.result
    return outcome


def watch(task: Task) -> Generator[Event, bool | None, Any]:
    """Passes a sub-task's progress and snapshots on, keeps its Done: `w = yield from watch(invert(photo))`."""
    answer: bool | None = None
    try:
        while True:
            event = task.send(answer)
            if isinstance(event, Done):
                return event.result
            answer = yield event
    except StopIteration:
        return None
    finally:
        task.close()
