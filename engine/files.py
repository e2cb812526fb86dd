"""Writing that leaves either the whole file or none: a temporary name in the same folder, then a rename."""

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engine.core.errors import DiskFull, UserError


@contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """`with atomic(path) as file:` writes beside `path` and puts it in place only when all went well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UserError(f"{path.parent} cannot be written to ({error.strerror}); choose another folder") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"the disk is full: {path.name} was not saved; free some space and try again") from error
        raise
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def save_tensors(path: Path, tensors: Mapping, metadata: Mapping[str, str]) -> None:
    """A safetensors file, whole or not at all."""
    from safetensors.torch import save

    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic(path) as file:
        file.write(save(contiguous, metadata=dict(metadata)))


def sweep(folder: Path) -> None:
    """Removes what a killed process left half written. Only for who knows that nobody else is writing there."""
    for leftover in folder.rglob(".*.*"):
        if leftover.is_file():
            leftover.unlink(missing_ok=True)
