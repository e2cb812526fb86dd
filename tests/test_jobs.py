import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.core.errors import DiskFull, UserError
from engine.core.events import Done, Progress
from engine.core.joblog import JobLog, State
from engine.core.jobs import Runner
from engine.core.targets import Seeds
from engine.methods import methods
from engine.studio import Studio

ROOT = Path(__file__).resolve().parents[1]


class Shelf:
    """A keeper that keeps in memory what Store keeps on disk."""

    def __init__(self):
        self.troubles, self.snapshots = [], []

    def preview(self, job, step, name, pixels):
        return f"{step}-{name}"

    def snapshot(self, job, step, tensors):
        self.snapshots.append(step)

    def trouble(self, job, text):
        self.troubles.append(text)

    def ended(self, row):
        self.rows = [*getattr(self, "rows", []), row]


@pytest.fixture
def runner(tmp_path):
    made = Runner(JobLog(tmp_path / "log.sqlite"), Shelf())
    yield made
    made.close()
    made.log.close_session()


def submit(runner, start, owner="me"):
    job = runner.log.add(owner, "test", "a test", {})
    runner.submit(job, start, lambda result, partial: {"result": result, "partial": partial})
    return job


def counting(total, pause=0.0):
    def task():
        for step in range(1, total + 1):
            time.sleep(pause)
            if (yield Progress(step, total, {"left": total - step})):
                break
        yield Done(step)

    return task


def test_a_job_runs_to_its_end_and_its_log_can_be_replayed_twice(runner):
    job = submit(runner, counting(5, 0.11))
    first = list(runner.follow(job))
    assert [data["step"] for _, data in first] == [1, 2, 3, 4, 5]
    assert list(runner.follow(job)) == first
    assert list(runner.follow(job, since=3)) == first[3:]
    assert runner.log.get(job).state is State.DONE and runner.log.get(job).result == {"result": 5, "partial": False}


def test_stop_and_keep_ends_at_the_next_step_with_a_result(runner):
    job = submit(runner, counting(10_000, 0.01))
    next(runner.follow(job))
    asked = time.monotonic()
    runner.stop(job, keep=True)
    row = runner.wait(job)
    assert time.monotonic() - asked < 1 and row.state is State.STOPPED
    assert 0 < row.result["result"] < 10_000 and row.result["partial"]


def test_stop_and_discard_leaves_no_result_and_closes_the_task(runner):
    closed = []

    def task():
        try:
            yield from counting(10_000, 0.01)()
        finally:
            closed.append(True)

    job = submit(runner, task)
    next(runner.follow(job))
    runner.stop(job, keep=False)
    row = runner.wait(job)
    assert row.state is State.STOPPED and row.result is None and closed == [True]


def test_a_queued_job_can_be_stopped_before_it_starts(runner):
    first = submit(runner, counting(10_000, 0.01))
    second = submit(runner, counting(3))
    assert runner.log.place(second) == 1
    runner.stop(second, keep=True)
    runner.stop(first, keep=False)
    assert runner.wait(second).state is State.STOPPED
    assert not runner.log.events(second)


def test_a_job_that_ends_while_it_is_stopped_is_not_left_stopping(runner):
    for _ in range(30):
        job = submit(runner, counting(1))
        runner.stop(job, keep=True)
        assert runner.wait(job).state in (State.DONE, State.STOPPED)


def test_an_ended_job_is_not_moved_by_a_late_stop(runner):
    job = submit(runner, counting(2))
    before = runner.wait(job)
    runner.stop(job, keep=False)
    assert runner.log.get(job).state is State.DONE and runner.log.get(job).result == before.result


def test_many_first_submits_at_once_start_one_worker(runner):
    running, most = [], []

    def task():
        running.append(1)
        most.append(len(running))
        time.sleep(0.02)
        running.pop()
        yield Done(1)

    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda _: submit(runner, task), range(8)))
    assert all(runner.wait(job).state is State.DONE for job in jobs) and max(most) == 1


def test_a_job_cannot_be_resumed_twice_at_once(runner):
    job = runner.log.add("me", "test", "a test", {})
    runner.log.mark(job, State.INTERRUPTED)
    runner.submit(job, counting(50, 0.01), lambda result, partial: result)
    with pytest.raises(UserError, match="already"):
        next(runner.follow(job))
        runner.submit(job, counting(1), lambda result, partial: result)
    runner.stop(job, keep=False)
    runner.wait(job)


def test_a_full_disk_at_the_end_leaves_the_run_resumable_and_the_worker_alive(runner):
    job = runner.log.add("me", "test", "a test", {})

    def full(result, partial):
        raise DiskFull("the disk is full")

    runner.submit(job, counting(2), full)
    row = runner.wait(job)
    assert row.state is State.INTERRUPTED and "disk is full" in row.error
    runner.submit(job, counting(2), lambda result, partial: result)
    assert runner.wait(job).state is State.DONE


def test_trouble_that_cannot_be_written_does_not_kill_the_worker(runner, monkeypatch):
    monkeypatch.setattr(runner.keeper, "trouble", lambda job, text: 1 / 0)

    def breaks():
        yield Progress(1, 2)
        raise RuntimeError

    assert runner.wait(submit(runner, breaks)).state is State.FAILED
    assert runner.wait(submit(runner, counting(2))).state is State.DONE


def test_a_user_error_is_shown_as_it_is_and_anything_else_hides_its_text(runner):
    def refuses():
        raise UserError("label 4 more")
        yield

    def breaks():
        yield Progress(1, 2)
        raise RuntimeError("/secret/path")

    assert runner.wait(submit(runner, refuses)).error == "label 4 more"
    row = runner.wait(submit(runner, breaks))
    assert row.state is State.FAILED and "secret" not in row.error
    assert "/secret/path" in runner.keeper.troubles[0]
    assert runner.wait(submit(runner, counting(2))).state is State.DONE, "the worker must live on"


def test_another_owner_cannot_see_a_job(runner):
    job = submit(runner, counting(1), owner="ann")
    runner.wait(job)
    with pytest.raises(UserError, match="no run"):
        runner.log.get(job, "bob")
    assert runner.log.rows("bob") == [] and [row.id for row in runner.log.rows("ann")] == [job]


def test_jobs_of_a_dead_process_become_interrupted_and_those_of_a_living_one_do_not(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from engine.core.joblog import JobLog, State;"
        "log = JobLog(Path(sys.argv[1])); log.open_session(); job = log.add('me', 'test', 'x', {});"
        "log.mark(job, State.RUNNING); print(job, flush=True); time.sleep(60)"
    )
    path = tmp_path / "log.sqlite"
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    job = process.stdout.readline().strip()
    log = JobLog(path)
    log.open_session()
    assert log.get(job).state is State.RUNNING
    process.kill()
    process.wait()
    log.mark_dead()
    assert log.get(job).state is State.INTERRUPTED
    log.close_session()


def test_a_fast_task_does_not_flood_the_log(runner):
    job = submit(runner, counting(5000))
    runner.wait(job)
    assert len(runner.log.events(job)) < 200
    assert runner.log.events(job)[-1][2]["step"] == 5000


def test_a_file_that_is_no_database_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "studio.sqlite").write_bytes(b"this is not a database, however long it may be " * 50)
    with pytest.raises(UserError, match="move it away"):
        JobLog(tmp_path / "studio.sqlite")


# The same through the door, with a real method on the tiny generator.


def test_a_run_is_kept_applied_withdrawn_and_deleted(studio):
    job = studio.forget("tiny", Seeds((3, 4)), "ascent", {"steps": 5})
    assert studio.wait(job).state is State.DONE
    plain = studio.sample("tiny", [3])[0]
    (name,) = studio.keep(job)
    assert studio.active("tiny") == [name]
    assert (studio.sample("tiny", [3], [name])[0] != plain).any()
    studio.activate("tiny", [])
    assert (studio.sample("tiny", [3], studio.active("tiny"))[0] == plain).all()
    studio.delete_delta(name)
    assert not list(studio.store.deltas.iterdir()) and studio.deltas("tiny") == {}


def test_a_finished_run_keeps_neither_codes_nor_snapshot(studio):
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 5, "snapshot_every": 2})
    studio.wait(job)
    names = {path.name for path in studio.store.run_folder(job).iterdir()}
    assert "result-0.safetensors" in names and not names & {"request.safetensors", "snapshot.safetensors"}


def test_keeping_twice_keeps_once_and_discarding_a_kept_result_is_refused(studio):
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 3})
    studio.wait(job)
    results = studio.store.results(job)
    names = studio.keep(job)
    studio.store.put_result(job, results, {})  # as if killed right after the record was written
    assert studio.keep(job) == names == studio.active("tiny")
    with pytest.raises(UserError, match="kept already"):
        studio.discard(job)


def test_two_threads_never_lose_each_others_activation(studio):
    jobs = [studio.forget("tiny", Seeds((seed,)), "ascent", {"steps": 2}) for seed in range(6)]
    for job in jobs:
        studio.wait(job)
    with ThreadPoolExecutor(6) as pool:
        names = {name for kept in pool.map(studio.keep, jobs) for name in kept}
    assert set(studio.active("tiny")) == names and len(names) == 6


def test_stop_and_discard_leaves_neither_codes_nor_snapshot(studio):
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 2000, "snapshot_every": 1})
    while not (studio.store.run_folder(job) / "snapshot.safetensors").exists():
        time.sleep(0.01)
    studio.stop(job, keep=False)
    studio.wait(job)
    left = {path.name for path in studio.store.run_folder(job).iterdir()}
    assert not left & {"request.safetensors", "snapshot.safetensors"}


def test_a_run_killed_after_its_result_was_written_is_done_on_resume(studio):
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 3})
    result = studio.wait(job).result
    studio.log.mark(job, State.INTERRUPTED)
    studio.resume(job)
    assert studio.run(job).state is State.DONE and studio.run(job).result == result


def test_a_check_that_cannot_be_made_costs_only_the_check(studio, monkeypatch):
    class Checked(methods["ascent"]):
        def check(self, before, after, request):
            yield Progress(0, 1)
            raise UserError("the judge is not here")

    monkeypatch.setitem(methods, "ascent", Checked)
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 2})
    row = studio.wait(job)
    assert row.state is State.DONE and row.result["verdict"] == {"unchecked": "the judge is not here"}
    assert studio.store.results(job)


def test_repeating_a_run_gives_the_same_delta(studio):
    first = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 3})
    second = studio.repeat(studio.wait(first).id)
    studio.wait(second)
    prints = [studio.store.results(job)[0].fingerprint for job in (first, second)]
    assert first != second and prints[0] == prints[1]


def test_a_killed_run_resumes_from_its_snapshot_to_the_same_delta(tmp_path):
    knobs = {"steps": 400, "snapshot_every": 5, "seed": 3}
    whole = Studio(tmp_path / "whole", "cpu")
    expected = whole.store.results(whole.wait(whole.forget("tiny", Seeds((3,)), "ascent", knobs)).id)[0].fingerprint
    whole.close()
    code = (
        "import sys, torch; torch.set_num_threads(1); from engine.studio import Studio;"
        "from engine.core.targets import Seeds; import json; s = Studio(sys.argv[1], 'cpu');"
        "job = s.forget('tiny', Seeds((3,)), 'ascent', json.loads(sys.argv[2])); print(job, flush=True); s.wait(job)"
    )
    data = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(data), json.dumps(knobs)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    job = process.stdout.readline().strip()
    while not (data / "runs" / job / "snapshot.safetensors").exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    again = Studio(data, "cpu")
    assert again.run(job).state is State.INTERRUPTED
    assert again.resume(job) == job and again.wait(job).state is State.DONE
    steps = [data["step"] for _, _, data in again.log.events(job) if "step" in data]
    assert again.store.results(job)[0].fingerprint == expected and steps[-1] == 400
    again.close()


def test_a_second_server_on_the_same_folder_is_refused(tmp_path):
    first, second = Studio(tmp_path, "cpu"), Studio(tmp_path, "cpu")
    first.store.claim()
    with pytest.raises(UserError, match="--data"):
        second.store.claim()
