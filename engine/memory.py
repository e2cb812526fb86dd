"""Memory that a loop frees is kept for its next round, and what a start makes is not looked through for rubbish.

The C library gives large blocks back to the system as soon as they are free, and the system clears every page anew when
it is touched again: a fifth of a feature step went by like that. Only glibc is told; elsewhere nothing happens.
"""

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

TRIM, MAP = -1, -3  # mallopt's numbers: free memory that is given back, blocks that are asked of the system one by one
MOST = {MAP: 1 << 30, TRIM: (1 << 31) - 1}
USUAL = {MAP: 32 << 20, TRIM: 64 << 20}  # what glibc itself comes to after large blocks


@contextmanager
def kept() -> Iterator[None]:
    """A block that gives nothing back to the system; at its end everything free is given back."""
    library = ctypes.CDLL(None)
    is_told = hasattr(library, "mallopt")
    try:
        for name, value in MOST.items() if is_told else ():
            library.mallopt(name, value)
        yield
    finally:
        for name, value in USUAL.items() if is_told else ():
            library.mallopt(name, value)
        give_back()


def give_back() -> None:
    """Everything that is free goes back to the system."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def kept_while_running(task: Callable) -> Callable:
    """The same for a method's generator, from its first event to its last."""

    @wraps(task)
    def run(*args, **knobs):
        with kept():
            return (yield from task(*args, **knobs))

    return run


@contextmanager
def uncollected() -> Iterator[None]:
    """A block that imports or builds what will stay. Python would look for rubbish among all of it again and again, a
    sixth of the start; and one whole look at a running page, 350 thousand objects, stops every visitor for 0.3 s. So
    none is taken meanwhile, and none later among what is there by the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
