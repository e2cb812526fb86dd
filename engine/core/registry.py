"""A registry is a dict that explains a wrong name. Adding a file is registering what is in it."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import TypeVar

from engine.core.errors import UserError

T = TypeVar("T")


class Registry(dict[str, T]):
    """Names to things of one kind; a taken name is refused, an unknown one is answered with the known ones."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def register(self, name: str) -> Callable[[T], T]:
        def add(thing: T) -> T:
            if name in self:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self[name] = thing
            return thing

        return add

    def __missing__(self, name: str) -> T:
        raise UserError(f"unknown {self.kind} {name!r}; known: {', '.join(sorted(self))}")


def import_siblings(package: str, path: list[str]) -> None:
    """Imports every module of a package, so that each registers what it holds. Called at the end of its __init__."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
