"""The studio's one SQLite file: a connection per call, so that any thread and any process may read."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.errors import UserError


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction: committed at the end of the block, undone by an exception."""
    try:
        db = sqlite3.connect(path, timeout=10)
        db.row_factory = sqlite3.Row
        db.execute("pragma synchronous = normal")
    except sqlite3.DatabaseError as error:
        raise UserError(f"{path} is not a database of this studio ({error}); move it away and start again") from error
    try:
        with db:
            yield db
    except sqlite3.OperationalError as error:
        raise UserError(
            f"the studio's record could not be written ({error}); check the disk, then try again"
        ) from error
    except sqlite3.DatabaseError as error:
        raise UserError(f"{path} is damaged ({error}); move it away and start again") from error
    finally:
        db.close()


def prepare(path: Path, schema: str) -> None:
    """Makes the tables that are not there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with connect(path) as db:
        db.execute("pragma journal_mode = wal")
        db.executescript(schema)
