"""Many at once, and everything that can go wrong outside the program: hostile files, a full disk, a clock that is set,
a database that somebody holds, a second server. Real files, processes, disks and browsers; only the time of day is
pretended. `python -m benchmarks load` does the browsers and the files at full size.

Elsewhere: twenty kills of the server (test_kill), two visitors (test_browser), each format's own refusals (test_photo,
test_pickles, test_importer, test_runfile, test_vault, test_datasets), a file that is no database (test_jobs).
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from benchmarks.doors import Doors, Sent
from benchmarks.load import label_together
from engine.core.errors import Busy
from engine.core.events import Done, Progress
from engine.core.joblog import JobLog, State
from engine.core.jobs import Runner
from engine.core.labelbook import LabelBook
from engine.core.targets import Seeds
from tests.browser import ROOT, Server
from webui.runview import job_tree
from webui.story import Story

DAY = 86_400


# Browsers


@pytest.mark.browser
def test_three_browsers_at_once_lose_no_label_and_all_see_the_run_move(tmp_path):
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed (Debian: apt install chromium fonts-dejavu)")
    with ThreadPoolExecutor(1) as apart:  # the other browser tests have a loop of their own in this thread
        found, kept = apart.submit(label_together, tmp_path, 3, 10, 2).result()
    seen = [visit for each in found for visit in each]
    assert kept == sum(len(visit.taken) for visit in seen) == 60
    assert all(visit.moved for visit in seen)


# Hostile files


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    made = Doors(tmp_path_factory.mktemp("doors"), bomb=1 << 24)
    yield made
    made.close()


def test_every_door_takes_its_good_file(doors):
    for name, good in doors.good.items():
        for content in good:
            outcome = doors.send(Sent(name, "a good file", content))
            assert not outcome.broke and not outcome.said, outcome


def test_hostile_files_are_refused_in_a_sentence_leave_nothing_and_take_little_memory(doors):
    outcomes = [doors.send(sent) for sent in doors.hostile(6 * len(doors.take), seed=1)]
    assert [(one.sent.door, one.sent.what, one.broke) for one in outcomes if one.broke] == []
    assert sum(bool(one.said) for one in outcomes) > 0.7 * len(outcomes)
    assert max(one.grown for one in outcomes) < 150e6
    assert {one.sent.door for one in outcomes if one.said} == set(doors.take), "every door refuses something"


@pytest.mark.parametrize("door", ["labels", "run", "data set"])
def test_nothing_that_was_built_against_a_quick_door_gets_more_than_a_sentence(doors, door):
    outcomes = [doors.send(Sent(door, what, content)) for what, content in doors.built[door].items()]
    assert [(one.sent.what, one.broke) for one in outcomes if one.broke] == []


# A full disk: a file system of its own, of a few MB, that only the tested process sees

ON_A_SMALL_DISK = """
import json, sys, time, torch
from pathlib import Path
from engine.core.errors import DiskFull
from engine.core.joblog import State
from engine.core.targets import Seeds
from engine.studio import Studio

torch.set_num_threads(1)
data = Path(sys.argv[1])
studio, ballast, said = Studio(data, "cpu", base="tiny"), data / "ballast", {}

def fill():
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass

def refused(name, act):
    try:
        act()
        said[name] = "was not refused"
    except DiskFull as error:
        said[name] = str(error)

studio.labels.set_many("me", "tiny", "hat", {seed: 1 for seed in range(50)})
model = studio.export("tiny", [], data / "kept.safetensors")
kept = studio.wait(studio.forget("tiny", Seeds((4,)), "ascent", {"steps": 3}))
parcel = studio.export_run(kept.id, data / "kept.zip")
knobs = {"steps": 400, "snapshot_every": 5, "seed": 3}
job = studio.forget("tiny", Seeds((3,)), "ascent", knobs)
while studio.store.snapshot_step(job) is None:
    time.sleep(0.01)
fill()
for first in range(1000, 1_000_000, 1000):  # the log may have some room left
    refused("labels", lambda: studio.labels.set_many("me", "tiny", "hat", dict.fromkeys(range(first, first + 1000), 0)))
    if said["labels"] != "was not refused":
        break
refused("a result", lambda: studio.keep(kept.id))
refused("a run as a zip", lambda: studio.export_run(kept.id, data / "x.zip"))
refused("a run from a zip", lambda: studio.import_run(parcel))
refused("a model", lambda: studio.export("tiny", [], data / "x.safetensors"))
refused("an imported model", lambda: studio.import_base(model, "mine"))
time.sleep(1.5)
ballast.unlink()
row = studio.wait(job)
said["the run"] = f"{row.state}: {row.error}"
said["labels of before"] = sum(label.value for label in studio.labels.get("me", "tiny", "hat").values())
if row.state is State.INTERRUPTED:
    studio.resume(job)
    row = studio.wait(job)
said["in the end"] = str(row.state)
said["fingerprint"] = studio.store.results(job)[0].fingerprint
said["left"] = sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.name.startswith((".", "x.")))
said["kept"] = studio.keep(kept.id)
studio.close()
print(json.dumps(said))
"""


@pytest.fixture
def small_disk(tmp_path):
    """on_disk(code, *arguments) runs Python code with a data folder of 6 MB as its first argument."""
    apart = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    mounted = 'mount -t tmpfs -o size=6m tmpfs "$1" && shift && exec "$@"'
    command = [*apart, "sh", "-c", mounted, "sh", str(tmp_path)]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system gives nobody a small disk of their own (unshare, mount)")

    def on_disk(code, *arguments):
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        whole = [*command, sys.executable, "-c", code, str(tmp_path), *arguments]
        done = subprocess.run(whole, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return on_disk


def test_on_a_full_disk_everything_is_refused_in_words_and_nothing_is_lost(small_disk, studio):
    said = small_disk(ON_A_SMALL_DISK)
    for name in ("labels", "a result", "a run as a zip", "a run from a zip", "a model", "an imported model"):
        assert "disk is full" in said[name] and "free some space" in said[name], (name, said[name])
    assert said["labels of before"] == 50 and said["left"] == [] and said["kept"]
    assert said["the run"].startswith(("interrupted: the disk is full", "done")), said["the run"]
    calm = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 400, "snapshot_every": 5, "seed": 3})
    studio.wait(calm)
    assert said["in the end"] == "done" and said["fingerprint"] == studio.store.results(calm)[0].fingerprint


# A database that another process holds


@pytest.fixture
def held(tmp_path):
    """held(path, seconds) locks a database in another process; gives it once it is locked."""
    code = (
        "import sqlite3, sys, time; db = sqlite3.connect(sys.argv[1]); db.execute('begin exclusive');"
        "print('held', flush=True); time.sleep(float(sys.argv[2])); db.rollback()"
    )
    holders = []

    def hold(path, seconds):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
        )
        holders.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in holders:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_label_waits_while_the_database_is_held_and_is_then_kept(held, tmp_path):
    book = LabelBook(tmp_path / "studio.sqlite")
    held(book.path, 1.5)
    book.set_many("ann", "tiny", "hat", {1: 1})
    assert book.counts("ann", "tiny", "hat").having == 1


def test_a_database_held_for_too_long_is_said_in_words_and_nothing_is_half_written(held, tmp_path):
    book = LabelBook(tmp_path / "studio.sqlite")
    book.set_many("ann", "tiny", "hat", {1: 1})
    holder, begun = held(book.path, 60), time.monotonic()
    with pytest.raises(Busy, match="another process is writing to it; try again in a moment"):
        book.set_many("ann", "tiny", "hat", {2: 1, 3: 0})
    assert 5 < time.monotonic() - begun < 20, "it waits, but not for ever"
    assert list(book.get("ann", "tiny", "hat")) == [1], "reading goes on meanwhile"
    holder.kill()
    holder.wait()
    book.set_many("ann", "tiny", "hat", {2: 1, 3: 0})
    assert list(book.get("ann", "tiny", "hat")) == [1, 2, 3]


def test_a_run_survives_a_database_that_is_held_while_it_starts_and_while_it_goes_on(held, tmp_path, monkeypatch):
    impatient = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: impatient(path, timeout=0.05))
    runner = Runner(JobLog(tmp_path / "studio.sqlite"), Nobody())
    runner.log.open_session()
    holding = threading.Event()

    def task():
        for step in range(1, 40):
            if step == 5:
                held(runner.log.path, 1)
                holding.set()
            time.sleep(0.02 if step < 5 else 0.05)
            yield Progress(step, 39)
        yield Done("the result")

    job = runner.log.add("me", "test", "a test", {})
    runner.log.mark(job, State.QUEUED)
    held(runner.log.path, 1)
    runner._queue.put((job, task, lambda result, partial: result))
    runner._ensure_worker()
    row = runner.wait(job)
    assert holding.is_set() and row.state is State.DONE and row.result == "the result", row.error
    runner.close()
    runner.log.close_session()


class Nobody:
    """A keeper that keeps nothing."""

    def ended(self, row):
        pass


# A clock that is set while the studio runs


@pytest.fixture
def clock(monkeypatch):
    """clock(seconds) sets the time of day forward or back; steady clocks go on."""
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    return lambda seconds: ahead.__setitem__(0, ahead[0] + seconds)


@pytest.mark.parametrize("jump", [-DAY, DAY], ids=["back by a day", "forward by a day"])
def test_time_left_and_duration_of_a_run_do_not_care_about_a_clock_that_is_set(studio, clock, jump):
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 150})
    next(studio.follow(job))
    clock(jump)
    told = Story()
    for n, data in studio.follow(job):
        told.feed(n, data)
        left = told.left()
        assert left is None or left < 120, left
    row = studio.run(job)
    assert 0 < row.finished - row.started < 120
    assert "Done in" in str(job_tree(row, told, {}, "Erasing")) and " h" not in job_tree(row, told, {}, "Erasing")[3][2]


def test_what_came_last_is_first_though_the_clock_was_set_back(studio, clock):
    jobs = []
    for jump in (0, -DAY, 2 * DAY, -3 * DAY):
        clock(jump)
        jobs.append(studio.wait(studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 1})).id)
        studio.labels.set_many("me", "tiny", f"feature {len(jobs)}", {1: 1})
        studio.labels.set_many("me", "tiny", "all", {len(jobs): 1})
    assert [row.id for row in studio.runs()] == jobs[::-1]
    assert list(studio.labels.features("me", "tiny")) == ["all", *(f"feature {n}" for n in (4, 3, 2, 1))]
    assert list(studio.labels.get("me", "tiny", "all")) == [1, 2, 3, 4]


def test_kept_erasures_and_task_sessions_stay_in_order_though_the_clock_was_set_back(studio, tmp_path):
    def set_back():
        """As if all that was written so far had been written tomorrow."""
        for path in (tmp_path / "data").rglob("*.*"):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime + DAY))

    kept, sessions = [], []
    for number in range(3):
        row = studio.wait(studio.forget("tiny", Seeds((number,)), "ascent", {"steps": 1}))
        kept += studio.keep(row.id)
        sessions.append(f"session-{number}")
        studio.wait(studio.begin_tasks("packnet", "digits", {"steps": 1}, name=sessions[-1]))
        set_back()
    assert list(studio.store.cards()) == kept
    assert studio.task_sessions() == sessions[::-1]


def test_a_run_waits_for_those_before_it_though_the_clock_was_set_back(studio, clock):
    first = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 2000})
    clock(-DAY)
    second = studio.forget("tiny", Seeds((4,)), "ascent", {"steps": 1})
    assert studio.place(second) == 1 and studio.place(first) == 0
    studio.stop(first, keep=False)
    studio.wait(second)


# A second server


def test_a_second_server_on_the_same_data_folder_refuses_politely_and_the_first_goes_on(tmp_path):
    first = Server(tmp_path)
    try:
        command = [sys.executable, "app.py", "--data", str(tmp_path), "--base", "tiny", "--port", "0"]
        second = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert second.returncode == 1 and second.stdout == ""
        (line,) = second.stderr.strip().splitlines()
        assert line.startswith("lethe: another Lethe server already uses") and "--data OTHER_FOLDER" in line
        assert httpx.get(f"{first.url}/healthz").json() == {"ok": True}
    finally:
        first.close()
