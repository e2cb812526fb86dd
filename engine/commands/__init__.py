"""The command line, one verb per file: `arguments(parser)` says what it takes, `run(args, studio)` does it.

Modules here import nothing heavy at the top, so that `--help` is instant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.core.registry import Registry, import_siblings


@dataclass(frozen=True)
class Verb:
    """`run` gives a plain value for --json, or None when everything was said already."""

    help: str
    arguments: Callable[[Any], None]
    run: Callable[[Any, Callable[[], Any]], Any]  # the second argument opens the Studio when it is needed


verbs: Registry[Verb] = Registry("command")

import_siblings(__name__, __path__)
