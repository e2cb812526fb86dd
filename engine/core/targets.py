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
    used only to check the result; `code` is the face's code where it was found already. Never written anywhere."""

    pixels: Any = field(repr=False)
    face: int = 0
    words: str = "a person"
    others: tuple[Any, ...] = field(default=(), repr=False)
    code: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class People:
    """Several people for one run, each by a photo or as a generated face."""

    people: tuple["Photo | Seeds", ...]


@dataclass(frozen=True)
class Folder:
    """A folder of images."""

    path: Path


@dataclass(frozen=True)
class Labels:
    """A named feature and the seeds that show it or do not. `chosen` seeds were picked actively, not at random.

    `also` are further features to forget in the same run, `keep` ones that must not change with them. `by` names the
    network that labelled, so that it does not judge as well; it is empty where people did.
    """

    name: str
    having: tuple[int, ...]
    lacking: tuple[int, ...]
    chosen: tuple[int, ...] = ()
    psi: float = 1.0
    also: tuple["Labels", ...] = ()
    keep: tuple["Labels", ...] = ()
    by: str = ""

    def __post_init__(self) -> None:
        """Takes plain lists and dicts too: a log holds nothing else."""
        for name in ("having", "lacking", "chosen"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("also", "keep"):
            made = (Labels(**other) if isinstance(other, dict) else other for other in getattr(self, name))
            object.__setattr__(self, name, tuple(made))


@dataclass(frozen=True)
class Classes:
    """Classes of a data set, by index."""

    indices: tuple[int, ...]
    data: str = "digits"


Target = Seeds | Photo | People | Folder | Labels | Classes


def has_photo(described: dict[str, Any]) -> bool:
    """Whether what a log knows of a target tells of a photo: pictures of that person must not stay."""
    return described.get("kind") == "Photo" or any(map(has_photo, described.get("people", ())))
