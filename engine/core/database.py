"""The studio's one SQLite file: a connection per call, so that any thread and any process may read."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.errors import Busy, DiskFull, UserError


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction: committed at the end of the block, undone by an exception."""
    try:
        db = sqlite3.connect(path, timeout=10)
        db.row_factory = sqlite3.Row
        db.execute("pragma synchronous = normal")
    except sqlite3.DatabaseError as error:
        raise _explained(path, error) from error
    try:
        with db:
            yield db
    except sqlite3.DatabaseError as error:
        raise _explained(path, error) from error
    finally:
        db.close()


def prepare(path: Path, schema: str) -> None:
    """Makes the tables that are not there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with connect(path) as db:
        db.execute("pragma journal_mode = wal")
        db.executescript(schema)


def _explained(path: Path, error: sqlite3.DatabaseError) -> UserError:
    """Only a file that is really broken may be moved away; everything else would lose what is in it."""
    match (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF:  # the rest of the bits are SQLite's details
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return UserError(f"{path} is damaged or no database of this studio ({error}); move it away and start again")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Busy("the studio's record is busy: another process is writing to it; try again in a moment")
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return DiskFull(
                f"the disk is full or broken: the studio's record could not be written ({error}); "
                "free some space and try again"
            )
    return UserError(f"the studio's record could not be written ({error}); check the disk, then try again")
