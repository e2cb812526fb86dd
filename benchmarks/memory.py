"""The memory that a piece of work needs, measured in a fresh process so that nothing earlier counts."""

import ctypes
import gc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

MINE = Path("/proc/self")


def alone(function: Callable, *args: Any) -> Any:
    """What a function of a module gives in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def held(line: str = "VmRSS", process: Path = MINE) -> float:
    """MiB that a process holds now; with "VmHWM" the most it ever held."""
    status = dict(row.split(":", 1) for row in (process / "status").read_text().splitlines())
    return int(status[line].split()[0]) / 1024


def peak(work: Callable[[], Any]) -> float:
    """MiB at the peak of the work, above what was held before. Loading a model peaks higher than it stays: what it has
    freed is given back first, and the kernel's mark of the most is set anew."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    (MINE / "clear_refs").write_text("5")
    before = held()
    work()
    return held("VmHWM") - before
