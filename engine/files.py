"""Writing that leaves either the whole file or none: a temporary name in the same folder, then a rename."""

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engine.core.errors import DiskFull, UserError


@contextmanager
def room_for(name: str) -> Iterator[None]:
    """Whoever writes `name` in this block says it in words when the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(f"the disk is full: {name} was not saved; free some space and try again") from error


@contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """`with atomic(path) as file:` writes beside `path` and puts it in place only when all went well."""
    with room_for(path.name):
        handle, name = _beside(path)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _beside(path: Path) -> tuple[int, str]:
    try:
        with room_for(path.name):
            path.parent.mkdir(parents=True, exist_ok=True)
            return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to ({error.strerror}); choose another folder") from error


def save_tensors(path: Path, tensors: Mapping, metadata: Mapping[str, str]) -> None:
    """A safetensors file, whole or not at all."""
    from safetensors.torch import save

    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic(path) as file:
        file.write(save(contiguous, metadata=dict(metadata)))


def by_age(paths: Iterable[Path]) -> list[Path]:
    """Oldest first."""
    return sorted(paths, key=lambda path: path.stat().st_mtime_ns)


def put_last(path: Path, paths: Iterable[Path]) -> None:
    """Makes a file that was just written the youngest, though the clock may have been set back since the others."""
    *_, youngest = by_age(paths)
    if youngest != path:
        later = youngest.stat().st_mtime_ns + 1_000_000  # the least that file systems tell apart
        os.utime(path, ns=(later, later))


def sweep(folder: Path) -> None:
    """Removes what a killed process left half written. Only for who knows that nobody else is writing there."""
    for leftover in folder.rglob(".*.*"):
        if leftover.is_file():
            leftover.unlink(missing_ok=True)
