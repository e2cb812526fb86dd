"""Generators, one architecture per file. Importing the package registers them all; weights load on demand."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from engine.core.registry import Registry, import_siblings

architectures: Registry[type[nn.Module]] = Registry("architecture")  # rebuilt from a stored config: cls(**config)


@dataclass(frozen=True)
class Base:
    """A ready model: how to load it, and what a user should know of it."""

    load: Callable[[], nn.Module]
    title: str
    licence: str
    needs: tuple[str, ...] = ()  # names in the table of assets
    of_faces: bool = False  # aligned as FFHQ is: photos can be found in it, and recognisers can judge it


bases: Registry[Base] = Registry("base")

import_siblings(__name__, __path__)
