"""The record of jobs and their events in SQLite: what a page replays, and what is left after a killed process.

One connection per call: any thread and any process may read. Every process that runs jobs holds a lock file of
its session; a job whose session nobody holds any more was cut off and becomes "interrupted".
"""

import fcntl
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.core.database import connect, prepare
from engine.core.errors import UserError

SCHEMA = """
create table if not exists job(
    id text primary key, owner text not null, kind text not null, title text not null, params text not null,
    state text not null, session text not null, created real not null, started real, finished real,
    error text, result text);
create table if not exists event(
    job text not null, n integer not null, t real not null, data text not null, primary key(job, n));
create index if not exists job_owner on job(owner, created);
"""


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def is_live(self) -> bool:
        return self in (State.QUEUED, State.RUNNING, State.STOPPING)


@dataclass(frozen=True)
class Row:
    """One job as the log knows it."""

    id: str
    owner: str
    kind: str
    title: str
    params: dict[str, Any]
    state: State
    session: str
    created: float
    started: float | None
    finished: float | None
    error: str | None
    result: Any


class JobLog:
    """Jobs and events in one file. Every query about a user's jobs carries the owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sessions = path.parent / "sessions"
        self.session: str | None = None
        prepare(path, SCHEMA)

    def _connect(self) -> AbstractContextManager[sqlite3.Connection]:
        return connect(self.path)

    def open_session(self) -> None:
        """Announces this process as one that runs jobs."""
        self.sessions.mkdir(parents=True, exist_ok=True)
        self.session = uuid.uuid4().hex[:12]
        self._lock = _hold(self.sessions / self.session)
        self.mark_dead()

    def mark_dead(self) -> None:
        """Jobs of processes that are gone become interrupted; those of a living one are left alone."""
        with self._connect() as db:
            unfinished = db.execute("select distinct session from job where state in ('queued','running','stopping')")
            for (session,) in unfinished.fetchall():
                if not session or (session != self.session and not _is_held(self.sessions / session)):
                    db.execute(
                        "update job set state='interrupted', finished=? "
                        "where session=? and state in ('queued','running','stopping')",
                        (time.time(), session),
                    )

    def close_session(self) -> None:
        if self.session:
            os.close(self._lock)
            (self.sessions / self.session).unlink(missing_ok=True)
            self.session = None

    @staticmethod
    def new_id() -> str:
        return uuid.uuid4().hex[:12]

    def take_in(self, job: str, owner: str, told: Mapping[str, Any], params: dict[str, Any], result: Any) -> None:
        """A run of another installation with its whole log, at once or not at all."""
        with self._connect() as db:
            words = (job, owner, "forget", told["title"], json.dumps(params), told["state"], "", *told["times"])
            columns = "id, owner, kind, title, params, state, session, created, started, finished, error, result"
            db.execute(
                f"insert into job({columns}) values(?,?,?,?,?,?,?,?,?,?,?,?)",
                (*words, told["error"], json.dumps(result)),
            )
            db.executemany(
                "insert into event values(?,?,?,?)",
                [(job, n, t, json.dumps(data)) for n, (t, data) in enumerate(told["events"], start=1)],
            )

    def add(self, owner: str, kind: str, title: str, params: dict[str, Any]) -> str:
        job = self.new_id()
        with self._connect() as db:
            db.execute(
                "insert into job(id, owner, kind, title, params, state, session, created) values(?,?,?,?,?,?,?,?)",
                (job, owner, kind, title, json.dumps(params), State.QUEUED, self.session or "", time.time()),
            )
        return job

    def mark(self, job: str, state: State, *, come_from: Sequence[State] = (), **words: Any) -> bool:
        """Moves a job to a state, only from those named if any are; False if it was in another. `words` are further
        columns; when it started or finished is now, unless it is among them."""
        now, values = time.time(), {"state": state, "session": self.session or ""}
        if state is State.QUEUED:
            values |= {"started": None, "finished": None}
        elif state is not State.STOPPING:
            values |= {"started" if state is State.RUNNING else "finished": now}
        values |= {name: json.dumps(value) if name == "result" else value for name, value in words.items()}
        allowed = f" and state in ({','.join('?' * len(come_from))})" if come_from else ""
        columns = ", ".join(f"{name}=?" for name in values)
        with self._connect() as db:
            changed = db.execute(f"update job set {columns} where id=?{allowed}", (*values.values(), job, *come_from))
            return changed.rowcount == 1

    def set_result(self, job: str, result: Any) -> None:
        """What became of a finished job's result: kept or discarded."""
        with self._connect() as db:
            db.execute("update job set result=? where id=?", (json.dumps(result), job))

    def write(self, job: str, data: dict[str, Any], t: float) -> None:
        """What happened at the run's time `t`."""
        with self._connect() as db:
            db.execute(
                "insert into event select ?, coalesce(max(n), 0) + 1, ?, ? from event where job = ?",
                (job, t, json.dumps(data), job),
            )

    def events(self, job: str, since: int = 0) -> list[tuple[int, float, dict[str, Any]]]:
        with self._connect() as db:
            rows = db.execute("select n, t, data from event where job=? and n>? order by n", (job, since)).fetchall()
        return [(row["n"], row["t"], json.loads(row["data"])) for row in rows]

    def get(self, job: str, owner: str | None = None) -> Row:
        """One job; with an owner given, somebody else's job is as unknown as one that never was."""
        with self._connect() as db:
            row = db.execute("select * from job where id=? and (? is null or owner=?)", (job, owner, owner)).fetchone()
        if row is None:
            raise UserError(f"there is no run {job}; the Runs page lists yours")
        return _row(row)

    def rows(self, owner: str | None = None, limit: int = 200) -> list[Row]:
        """Newest first, by the order in which they came: the clock may have been set back meanwhile."""
        with self._connect() as db:
            query = "select * from job where (? is null or owner=?) order by rowid desc limit ?"
            return [_row(row) for row in db.execute(query, (owner, owner, limit)).fetchall()]

    def place(self, job: str) -> int:
        """How many jobs are before this one."""
        with self._connect() as db:
            query = (
                "select count(*) from job where state in ('queued','running','stopping') "
                "and rowid < (select rowid from job where id=?)"
            )
            return db.execute(query, (job,)).fetchone()[0]

    def delete(self, job: str) -> None:
        with self._connect() as db:
            db.execute("delete from event where job=?", (job,))
            db.execute("delete from job where id=?", (job,))


def _row(row: sqlite3.Row) -> Row:
    fields = dict(row)
    fields["params"], fields["result"] = json.loads(fields["params"]), json.loads(fields["result"] or "null")
    return Row(**{**fields, "state": State(fields["state"])})


def _hold(path: Path) -> int:
    handle = os.open(path, os.O_CREAT | os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def _is_held(path: Path) -> bool:
    try:
        os.close(_hold(path))
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    path.unlink(missing_ok=True)
    return False
