"""Sessions behind the one door: every step is a run, a session is its owner's, and a dead process loses nothing."""

import pytest

from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.core.joblog import State
from engine.studio import Studio

QUICK = {"steps": 6, "batch": 8}


@pytest.fixture
def studio(tmp_path):
    made = Studio(tmp_path, device="cpu")
    yield made
    made.close()


def begin(studio, method="packnet", **how):
    row = studio.wait(studio.begin_tasks(method, "digits", QUICK, **how))
    assert row.state is State.DONE
    return row.params["session"]


def done(studio, job):
    row = studio.wait(job)
    assert row.state is State.DONE, row.error
    return row


def states(studio, session, **whose):
    return [line["state"] for line in studio.task_session(session, **whose)["tasks"]]


def test_a_journey_of_steps_leaves_its_record_and_the_same_bytes(studio):
    session = begin(studio)
    assert session == "packnet-digits-1"
    for task in range(3):
        row = done(studio, studio.learn_task(session))
        assert row.result["words"].startswith(f"Learned task {task}: ")
        assert set(row.result["scalars"]) == {"accuracy", "loss", "seconds"}
        assert any("accuracy" in data.get("scalars", {}) for _, data in studio.follow(row.id))
    before = studio.task_session(session)
    row = done(studio, studio.forget_task(session, 2))
    assert row.title == "Forget task 2, four or five (PackNet)"
    assert states(studio, session)[:4] == ["live", "live", "forgotten", "new"]
    row = done(studio, studio.restore_task(session, 2))
    assert row.result["words"] == "Restored task 2 in its old place: bit for bit."
    after = studio.task_session(session)
    assert after["hash"] == before["hash"]
    assert [line["event"] for line in after["matrix"]] == ["learn", "learn", "learn", "forget", "restore"]
    assert studio.task_sessions() == [session]
    (summary,) = studio.task_summaries()
    assert summary["live"] == [0, 1, 2]
    assert summary["accuracy"] == after["facts"]["accuracy"]


def test_a_damaged_session_is_named_and_hides_no_other(studio):
    whole, broken = begin(studio), begin(studio)
    file = studio.store.tasks("local") / broken / "session.safetensors"
    file.write_bytes(file.read_bytes()[:60])
    told = {summary["name"]: summary for summary in studio.task_summaries()}
    assert "no readable session" in told[broken]["trouble"]
    assert told[whole]["title"] == "PackNet"


def test_a_step_that_cannot_be_is_refused_before_it_becomes_a_run(studio):
    session = begin(studio)
    for _ in range(2):
        done(studio, studio.learn_task(session))
    runs = len(studio.runs())
    refused = {
        "task 0 is already learned": lambda: studio.learn_task(session, 0),
        "task 1 was built on task 0: forget both": lambda: studio.forget_task(session, 0, "exclusive"),
        "task 3 was never learned": lambda: studio.forget_task(session, 3),
        "task 1 is not in this session's vault": lambda: studio.restore_task(session, 1),
        "there is no further task": lambda: studio.learn_task(session, 9),
        "nothing holds no session": lambda: studio.learn_task("nothing"),
        "is not a name": lambda: studio.learn_task("../other"),
        "has no setting 'speed'": lambda: studio.begin_tasks("hat", "digits", {"speed": 1}),
        "does not come with Lethe": lambda: studio.begin_tasks("hat", "cifar10"),
    }
    for words, ask in refused.items():
        with pytest.raises(UserError, match=words):
            ask()
    assert len(studio.runs()) == runs


def test_a_session_is_its_owners(studio):
    session = begin(studio, owner="Ann@example")
    assert studio.task_sessions("Ann@example") == [session]
    assert studio.task_sessions() == []
    with pytest.raises(UserError, match="yours: none yet"):
        studio.task_session(session)
    with pytest.raises(UserError, match="holds no session"):
        studio.delete_tasks(session)
    studio.delete_tasks(session, owner="Ann@example")
    assert studio.task_sessions("Ann@example") == []


def test_a_vault_file_comes_back_and_a_wrong_one_changes_nothing(studio):
    session, other = begin(studio), begin(studio, seed=1)
    for name in (session, other):
        done(studio, studio.learn_task(name))
        done(studio, studio.forget_task(name, 0))
    content, strange = (studio.task_vault(name, 0).read_bytes() for name in (session, other))
    before = studio.task_session(session)["hash"]
    changed = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    for bad, error in ((content[:-40], DamagedFile), (changed, DamagedFile), (strange, Mismatch), (b"no", DamagedFile)):
        with pytest.raises(error):
            studio.hand_back_task(session, bad)
    assert studio.task_session(session)["hash"] == before
    folder = studio.task_vault(session, 0).parent
    studio.task_vault(session, 0).unlink()
    row = done(studio, studio.hand_back_task(session, content))
    assert row.result["receipt"]["equal"] is True
    assert states(studio, session)[0] == "live"
    assert list(folder.glob("handed-*")) == []


def test_a_step_that_was_stopped_and_discarded_leaves_the_session_as_it_was(studio):
    row = studio.wait(studio.begin_tasks("packnet", "digits", {"steps": 20_000}))
    session = row.params["session"]
    before = studio.task_session(session)
    job = studio.learn_task(session)
    next(data for _, data in studio.follow(job) if "step" in data)
    assert studio.learn_task(session) == job  # one step at a time
    with pytest.raises(UserError, match="is at work"):
        studio.delete_tasks(session)
    studio.stop(job, keep=False)
    assert studio.wait(job).state is State.STOPPED
    assert studio.task_session(session) == before
    job = studio.learn_task(session)
    next(data for _, data in studio.follow(job) if "step" in data)
    studio.stop(job, keep=True)
    assert "stopped early" in studio.wait(job).result["words"]
    assert states(studio, session)[0] == "live"


def test_a_step_cut_off_after_its_save_is_not_taken_twice(studio):
    session = begin(studio)
    job = done(studio, studio.learn_task(session)).id
    before = studio.task_session(session)
    studio.log.mark(job, State.INTERRUPTED)
    assert studio.resume(job) == job
    assert done(studio, job).result["words"] == "Done before."
    assert studio.task_session(session)["hash"] == before["hash"]
    with pytest.raises(UserError, match="already learned"):
        studio.repeat(job)


def test_a_step_cut_off_in_the_middle_is_taken_again(studio):
    session = begin(studio)
    params = {"action": "learn", "session": session, "task": 0, "base": "digits", "method": "packnet", "knobs": {}}
    job = studio.log.add("local", "tasks", "Learn task 0", params)
    studio.log.mark(job, State.INTERRUPTED)
    studio.resume(job)
    done(studio, job)
    assert states(studio, session)[0] == "live"


def test_pictures_are_asked_about_with_the_task_given_or_found(studio):
    session = begin(studio, "supsup")
    for _ in range(2):
        done(studio, studio.learn_task(session))
    pictures = studio.task_pictures(session, 4)
    assert set(pictures) == set(range(6))
    assert pictures[0][0].shape == (8, 8, 3)
    said = studio.ask_task(session, (0, 1, 4), 0)
    assert said["truth"] in ("zero", "one")
    assert said["labels"][0] in ("zero", "one")
    found = studio.ask_task(session, (0, 1, 4), beside=15)
    assert found["by"] == "one-shot"
    assert len(found["labels"]) == (16 if found["task"] != "unknown" else 0)
    done(studio, studio.forget_task(session, 1))
    with pytest.raises(UserError, match="task 1 was forgotten"):
        studio.ask_task(session, (1, 0, 4), 1)


def test_every_method_says_what_it_is(studio):
    infos = {info.name: info for info in studio.mask_methods()}
    assert len(infos) >= 11
    assert all(info.words.endswith(".") for info in infos.values())
    assert infos["supsup"].finds_task
    assert infos["independent"].is_reference
    assert not infos["apd"].exact
    assert {info.name for info in studio.task_splits() if not info.missing} >= {"digits", "permuted-digits"}
