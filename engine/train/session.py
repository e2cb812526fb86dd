"""One training run at the command line: a bar with time left, a snapshot on disk, and the way back from it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from engine.commands.screen import bar
from engine.core.events import Done, Progress, Snapshot, Task
from engine.files import save_tensors


def run(title: str, path: Path, start: Callable[[Mapping[str, Tensor] | None], Task]) -> Any:
    """Runs `start(snapshot)` to its end and gives its result; the snapshot at `path` lives until then."""
    result = None
    with bar(title) as update:
        for event in start(load_file(path) if path.exists() else None):
            match event:
                case Progress():
                    update(event.step, event.total, event.note, dict(event.scalars))
                case Snapshot():
                    save_tensors(path, event.tensors, {"step": str(event.step)})
                case Done():
                    result = event.result
    path.unlink(missing_ok=True)
    return result
