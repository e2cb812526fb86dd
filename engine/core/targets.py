"""What a front end may ask to forget. Plain data: no tensors, no device."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Seeds:
    """Generated faces, by the seeds that make them."""

    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Photo:
    """One photo in memory, HWC uint8, and which of its faces is meant. `others` are more photos of the same person,
    used only to check the result. Never written anywhere."""

    pixels: Any = field(repr=False)
    face: int = 0
    words: str = "a person"
    others: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Folder:
    """A folder of images."""

    path: Path


@dataclass(frozen=True)
class Labels:
    """A named feature and the seeds that show it or do not. `chosen` seeds were picked actively, not at random."""

    name: str
    having: tuple[int, ...]
    lacking: tuple[int, ...]
    chosen: tuple[int, ...] = ()
    psi: float = 1.0


@dataclass(frozen=True)
class Classes:
    """Classes of a data set, by index."""

    indices: tuple[int, ...]
    data: str = "digits"


Target = Seeds | Photo | Folder | Labels | Classes
