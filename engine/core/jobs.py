"""One worker thread, one queue. A job outlives the page that asked for it: the log has every event."""

import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from engine.core.errors import Busy, DiskFull, Stopped, UserError
from engine.core.events import Done, Event, Progress, Snapshot, Task
from engine.core.joblog import JobLog, Row, State

LOG_EVERY = 0.1  # seconds between two plain progress rows; a fast method must not spend its time in the log


class Keeper(Protocol):
    """Where a run's pictures and snapshots go. The job log holds their names only."""

    def preview(self, job: str, step: int, name: str, pixels: Any) -> str: ...
    def snapshot(self, job: str, step: int, tensors: Any) -> None: ...
    def trouble(self, job: str, text: str) -> None: ...
    def ended(self, row: Row) -> None: ...  # the log knows how it ended: what is not needed any more may go


class Runner:
    """Runs tasks one after another; pages and command line only watch."""

    def __init__(self, log: JobLog, keeper: Keeper) -> None:
        self.log, self.keeper = log, keeper
        self._queue: queue.Queue[tuple[str, Callable[[], Task], Callable[[Any, bool], Any]] | None] = queue.Queue()
        self._asked: dict[str, str] = {}  # job -> "keep" | "discard"
        self._changed = threading.Condition()
        self._starting = threading.Lock()
        self._worker: threading.Thread | None = None
        self._closing = False
        self._at_work: str | None = None  # the job that the worker has not let go of yet

    def submit(self, job: str, start: Callable[[], Task], finish: Callable[[Any, bool], Any]) -> None:
        """Queues a job of the log, new or interrupted. `finish(result, was_stopped)` gives what the log keeps of it."""
        self._ensure_worker()
        if not self.log.mark(job, State.QUEUED, come_from=(State.QUEUED, State.INTERRUPTED), error=None):
            raise UserError(f"run {job} is {self.log.get(job).state} already")
        self._asked.pop(job, None)
        self._queue.put((job, start, finish))

    def stop(self, job: str, *, keep: bool) -> None:
        """Asks a job to end at its next step; `keep` lets it finish with what it has. One that waits ends at once."""
        if self.log.mark(job, State.STOPPED, come_from=[State.QUEUED]):
            self.keeper.ended(self.log.get(job))
        elif self.log.mark(job, State.STOPPING, come_from=[State.RUNNING]):
            self._asked[job] = "keep" if keep else "discard"
        self._notify()

    def is_stopping(self, job: str) -> bool:
        return job in self._asked

    def follow(self, job: str, since: int = 0, patience: float | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Replays what happened after event `since`, then follows until the job has ended; `t` says when it was."""
        deadline = None if patience is None else time.monotonic() + patience
        while True:
            ended = not self.log.get(job).state.is_live  # asked before reading: nothing can slip in between
            for n, t, data in self.log.events(job, since):
                since = n
                yield n, {**data, "t": t}
            if ended or (deadline and time.monotonic() > deadline):
                return
            with self._changed:
                self._changed.wait(0.2)

    def wait(self, job: str) -> Row:
        """Blocks until the job has ended and what it no longer needs is gone."""
        for _ in self.follow(job):
            pass
        with self._changed:
            self._changed.wait_for(lambda: self._at_work != job)
        return self.log.get(job)

    def close(self, timeout: float = 5.0) -> None:
        """Ends the worker; a running job is left to be resumed."""
        if self._worker and self._worker.is_alive():
            self._closing = True
            self._queue.put(None)
            self._worker.join(timeout)

    def _ensure_worker(self) -> None:
        with self._starting:
            if self._worker is None or not self._worker.is_alive():
                if self.log.session is None:
                    self.log.open_session()
                self._closing = False
                self._worker = threading.Thread(target=self._work, name="lethe-worker", daemon=True)
                self._worker.start()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None and not self._closing:
            self._at_work = item[0]
            try:
                self._run(*item)
            except Exception:  # the worker must live on, whatever happened to one job
                self._trouble(item[0])
            finally:
                self._asked.pop(item[0], None)
                self._at_work = None
                self._notify()

    def _run(self, job: str, start: Callable[[], Task], finish: Callable[[Any, bool], Any]) -> None:
        started, begun = time.time(), time.monotonic()

        def now() -> float:
            """The run's own time: somebody may set the machine's clock while it goes on."""
            return started + time.monotonic() - begun

        if not self._mark(job, State.RUNNING, come_from=[State.QUEUED], started=started):
            return
        self._notify()
        try:
            outcome, state = self._drive(job, start(), now)
            if state is not None:
                kept = None if outcome is None else finish(outcome, state is State.STOPPED)
                self._conclude(job, state, now(), result=kept)
        except DiskFull as error:  # what is computed can be computed again from the last snapshot
            self._conclude(job, State.INTERRUPTED, now(), error=str(error))
        except Stopped as error:
            self._conclude(job, State.STOPPED, now(), error=str(error))
        except UserError as error:
            self._conclude(job, State.FAILED, now(), error=str(error))
        except MemoryError:
            line = "out of memory: close other programs and resume, or try again with a smaller batch"
            self._conclude(job, State.INTERRUPTED, now(), error=line)
        except Exception as error:
            self._trouble(job)
            line = f"something unforeseen went wrong ({type(error).__name__}); the run's folder has the details"
            self._conclude(job, State.FAILED, now(), error=line)

    def _conclude(self, job: str, state: State, finished: float, **words: Any) -> None:
        """Writes how and when a job ended; only then does the keeper tidy."""
        self._mark(job, state, come_from=(State.RUNNING, State.STOPPING), finished=finished, **words)
        if not self._closing:
            self.keeper.ended(self.log.get(job))

    def _mark(self, job: str, state: State, **words: Any) -> bool:
        """However long it takes until the disk has room for it and no other process holds the log."""
        while not self._closing:
            with suppress(UserError):
                return self.log.mark(job, state, **words)
            time.sleep(1)
        return False

    def _trouble(self, job: str) -> None:
        text = traceback.format_exc()
        with suppress(Exception):  # no room for the details must not cost the job's end
            self.keeper.trouble(job, text)

    def _drive(self, job: str, task: Task, now: Callable[[], float]) -> tuple[Any, State | None]:
        """Steps a task to its end, or to where it was asked to stop; None as state means the server is closing."""
        answer, outcome, last = None, None, 0.0
        try:
            while True:
                event: Event = task.send(answer)
                if isinstance(event, Done):
                    outcome = event.result
                else:
                    last = self._record(job, event, last, now())
                if self._closing and outcome is None:
                    return None, None
                asked = self._asked.get(job)
                if asked == "discard":
                    return None, State.STOPPED
                answer = True if asked == "keep" else None
        except StopIteration:
            return outcome, State.STOPPED if job in self._asked else State.DONE
        finally:
            task.close()

    def _record(self, job: str, event: Progress | Snapshot, last: float, now: float) -> float:
        if isinstance(event, Snapshot):
            with suppress(DiskFull, Busy):  # an older snapshot is left; the run itself need not end
                self.keeper.snapshot(job, event.step, event.tensors)
                self.log.write(job, {"snapshot": event.step}, now)
        elif event.images or now - last >= LOG_EVERY or event.step in (1, event.total):
            images = {name: self.keeper.preview(job, event.step, name, pixels) for name, pixels in event.images.items()}
            scalars = {name: float(value) for name, value in event.scalars.items()}
            data = {"step": event.step, "total": event.total, "scalars": scalars, "images": images, "note": event.note}
            with suppress(Busy):  # a later row tells more than this one
                self.log.write(job, {name: value for name, value in data.items() if value not in ({}, "")}, now)
        else:
            return last
        self._notify()
        return now

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
