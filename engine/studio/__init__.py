"""The one door: page, command line and scripts ask here, in plain values, and get plain values back.

Its rooms, one file each: `shelf` (models and pictures), `forgetting` (runs that change a model), `record` (the runs
that were), `kept` (erasures that are applied or not), `labelling` (labels, and what they tell), `features` (what an
erasure would do), `blindcheck` (what people see of it), `classroom` (classifiers and their data), `deposits` (classes
that leave a classifier and return), `tasks` (classifiers that learn tasks one by one), `portraits` (a person before
they are erased), `versions` (two of a model at the same codes), `parcels` (runs as zips), `audits` (attacks on what was
erased, with `subjects`: which erasures there are to attack).
"""

import os
import platform
import shutil
from pathlib import Path
from typing import Any

import torch

from engine import device as devices
from engine.core.joblog import JobLog
from engine.core.jobs import Runner
from engine.core.labelbook import LabelBook
from engine.models import Models
from engine.store import Store
from engine.studio.audits import Audits
from engine.studio.blindcheck import BlindCheck
from engine.studio.classroom import READY, DataInfo, NetworkInfo
from engine.studio.deposits import Deposits
from engine.studio.features import Features
from engine.studio.forgetting import LOCAL, Forgetting
from engine.studio.kept import Deletion, Kept, Standing
from engine.studio.parcels import Parcels
from engine.studio.portraits import Portraits
from engine.studio.record import Record
from engine.studio.shelf import BaseInfo, Shelf
from engine.studio.subjects import Subject
from engine.studio.tasks import Tasks
from engine.studio.versions import RUN, Versions

__all__ = [
    "LOCAL",
    "READY",
    "ROOT",
    "RUN",
    "BaseInfo",
    "DataInfo",
    "Deletion",
    "NetworkInfo",
    "Standing",
    "Studio",
    "Subject",
]

ROOT = Path(__file__).resolve().parents[2] / "checkpoints"


class Studio(
    Shelf, Forgetting, Record, Kept, Features, BlindCheck, Deposits, Tasks, Portraits, Versions, Parcels, Audits
):
    """Models, runs and kept erasures of one data folder on one device."""

    def __init__(self, root: Path = ROOT, device: str = "auto", *, base: str | None = None) -> None:
        """`base` is the model to begin with; without it, the best one that is here."""
        self.device = devices.choose(device)
        self.first_base = base
        self.store = Store(Path(root))
        self.log = JobLog(self.store.database)
        self.log.mark_dead()
        self.labels = LabelBook(self.store.database)
        self.runner = Runner(self.log, self.store)
        self.models = Models(self.store, self.device)
        self.begin = {
            "train": self.begin_training,
            "deposit": self.begin_deposit,
            "tasks": self.begin_step,
            "audit": self.begin_audit,
        }

    def claim(self) -> None:
        """Makes this process the only server on its data folder; a second one is refused."""
        self.store.claim()

    def close(self) -> None:
        self.runner.close()
        self.log.close_session()

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


def _free_memory() -> float | None:
    try:
        return round(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)
    except (ValueError, OSError):
        return None
