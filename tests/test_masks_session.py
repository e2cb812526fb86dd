"""A session survives its process: every step is on disk when it is done, and a dead one loses nothing."""

import pytest
import torch

from engine.core.errors import DamagedFile, UserError
from engine.core.events import result
from engine.masks import measure
from engine.masks.measure import Row
from engine.masks.session import Session
from engine.masks.state import same_bytes
from tests.tiny_tasks import begin, learn, tasks

QUICK = {"steps": 4, "batch": 8}


@pytest.fixture
def session(tmp_path):
    return result(Session.create(tmp_path / "one", "packnet", "digits", knobs=QUICK))


def test_a_session_reopened_is_the_session_as_it_was(session):
    result(session.learn())
    result(session.learn())
    result(session.forget(1, "exclusive"))
    again = Session.open(session.folder)
    assert again.net.state_hash() == session.net.state_hash()
    assert again.matrix == session.matrix
    assert again.receipts == session.receipts
    assert again.net.vaults == session.net.vaults
    assert again.overview() == session.overview()
    restored = result(again.restore(1))
    assert restored.equal
    assert again.net.backbone == session.net.backbone


def test_learning_that_was_cut_off_leaves_the_last_step_on_disk(session):
    result(session.learn())
    whole = session.net.state_hash()
    learning = session.learn()
    next(learning)
    assert Session.open(session.folder).net.state_hash() == whole
    learning.close()
    assert session.net.state_hash() == whole


def test_the_next_task_is_the_first_never_learned(session):
    result(session.learn(2))
    result(session.learn())
    assert set(session.net.state.tasks) == {0, 2}
    result(session.forget(0))
    assert session.next_task() == 1
    assert [line["state"] for line in session.overview()] == ["forgotten", "new", "live", "new", "new", "new"]


def test_a_session_refuses_what_it_cannot_do_and_says_why(session, tmp_path):
    with pytest.raises(UserError, match="already holds a session"):
        Session.create(session.folder, "packnet", "digits")
    with pytest.raises(UserError, match="unknown mask method 'pack'; known: apd"):
        Session.create(tmp_path / "two", "pack", "digits")
    with pytest.raises(UserError, match="unknown split 'letters'"):
        Session.create(tmp_path / "two", "packnet", "letters")
    with pytest.raises(UserError, match=r"task 3 is not in this session's vault \(forgotten: none\)"):
        session.restore(3)
    with pytest.raises(UserError, match="there is no further task"):
        session.learn(6)
    with pytest.raises(UserError, match="holds no session"):
        Session.open(tmp_path / "nowhere")
    file = session.folder / "session.safetensors"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(DamagedFile, match="no readable session"):
        Session.open(session.folder)


def test_a_picture_is_answered_by_the_task_that_is_named(session):
    result(session.learn())
    picture = session.samples(0, 3)[1]
    answer = session.answer(picture, 0)
    assert answer.labels[0] in ("zero", "one")
    with pytest.raises(UserError, match="cannot tell which task"):
        session.answer(picture)
    with pytest.raises(UserError, match=r"this network takes \(1, 8, 8\)"):
        session.answer(picture[:4], 0)


def test_facts_and_overlap_are_about_live_tasks(session):
    result(session.learn())
    result(session.learn())
    facts = session.facts()
    assert facts["forgetting"] == 0.0
    assert facts["bwt"] == 0.0
    overlap = session.overlap()
    assert overlap[0, 0] == 1.0
    assert 0 < overlap[0, 1] < 1


def test_forgetting_and_backward_transfer_follow_their_formulas():
    matrix = [
        Row("learn", 0, {0: 0.9}),
        Row("learn", 1, {0: 0.95, 1: 0.8}),
        Row("learn", 2, {0: 0.6, 1: 0.7, 2: 1.0}),
    ]
    lost = measure.forgetting(matrix)
    assert lost == {0: pytest.approx(0.35), 1: pytest.approx(0.1), 2: 0.0}
    assert measure.backward_transfer(matrix) == pytest.approx(((0.6 - 0.9) + (0.7 - 0.8)) / 2)


def test_the_probe_finds_what_features_tell_and_nothing_else():
    task = tasks()[0]
    random = torch.Generator().manual_seed(0)
    noise = [torch.randn(len(part), 5, generator=random) for part in (task.train, task.test)]
    assert measure.probe(*noise, task) < 0.8
    telling = [torch.cat([x, part.y[:, None]], 1) for x, part in zip(noise, (task.train, task.test), strict=True)]
    assert measure.probe(*telling, task) == 1.0


def test_relapse_asks_every_live_task():
    net = begin("supsup")
    assert measure.relapse(net, tasks()[1])["answers"] == 0.0
    learn(net, 0, 2)
    report = measure.relapse(net, tasks()[1])
    assert report["answers"] > 0
    assert report["probe"] > 0.4


def test_a_step_leaves_the_answers_of_a_reopened_session_bit_for_bit(session):
    result(session.learn())
    x = session.tasks[0].test.x
    assert same_bytes(Session.open(session.folder).net.logits(x, 0), session.net.logits(x, 0))
