"""Deposits through the one door: runs, files, refusals, and the command line that asks there too."""

import json
import shutil

import numpy as np
import pytest

import app
from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.core.joblog import State
from engine.deposits import Deposit
from engine.studio import READY, Studio

QUICK = {"steps": 30, "dreams": 32, "dream_steps": 4, "snapshot_every": 5}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    made = Studio(tmp_path_factory.mktemp("data"), "cpu")
    yield made
    made.close()


@pytest.fixture(scope="module")
def job(room):
    made = room.deposit("digits", READY, ["zero", "two"], QUICK)
    assert room.wait(made).state is State.DONE
    return made


def last(steps):
    *said, found = steps
    assert all(isinstance(words, str) for words in said) and isinstance(found, dict)
    return found


def test_a_deposit_run_leaves_a_network_a_file_and_a_report(room, job):
    row, found = room.run(job), room.deposit_report(job)
    assert row.title == "Deposit zero, two" and row.result["gone"] == ["zero", "two"] and row.result["seconds"] > 0
    assert row.result["sizes"]["bytes"] < 0.25 * row.result["sizes"]["network"]
    assert set(found["confusion"]) == {"original", "target"}, "nothing is recovered before the file is handed back"
    assert found["table"]["target"]["Dep"] < found["table"]["original"]["Dep"] - 50
    curves = [set(data["scalars"]) for _, data in room.follow(job) if "scalars" in data]
    assert {"L_kr", "L_kp", "L_pt"} <= curves[-1]


def test_the_file_brings_the_classes_back_and_can_be_taken_out_again(room, job, tmp_path):
    file = shutil.copy(room.deposit_file(job), tmp_path / "mine.safetensors")
    found = last(room.withdraw(job, [file]))
    table = found["table"]
    assert table["recovered"]["Dep"] > table["target"]["Dep"] + 50 and "recovered, sum rule" in table
    assert room.deposit_report(job) == json.loads(json.dumps(found))
    assert len(found["map"]["recovered"]) == len(found["map labels"]) == len(found["map"]["original"])
    number, (name, picture) = next(iter(room.test_pictures(job).items()))
    said = room.try_picture(job, number)
    assert room.try_picture(job, picture) == said and room.returned(job) == ["zero", "two"]
    assert name == "zero" and list(said) == ["original", "target", "recovered"]
    assert said["original"][0][0] == said["recovered"][0][0] == "zero"
    assert last(room.measure_deposit(job, "t-sne"))["map"] != found["map"]
    assert "recovered" not in last(room.take_out_again(job))["table"]
    assert list(room.try_picture(job, np.zeros((30, 20, 3), np.uint8))) == ["original", "target"]


def test_a_removed_file_is_gone_here_and_works_from_the_owners_hand(room, job, tmp_path):
    other = room.repeat(job)
    assert room.wait(other).state is State.DONE
    file = shutil.copy(room.deposit_file(other), tmp_path / "mine.safetensors")
    room.remove_deposit_file(other)
    with pytest.raises(UserError, match="only the file you took"):
        room.deposit_file(other)
    assert "recovered" in last(room.withdraw(other, [file]))["table"]
    room.delete_run(other)
    with pytest.raises(UserError, match="no run"):
        room.deposit_report(other)


def test_a_wrong_file_a_strangers_and_a_damaged_one_are_refused(room, job, tmp_path):
    whole = room.deposit_file(job).read_bytes()
    wrong = tmp_path / "notes.txt"
    for content in (b"my notes", whole[: len(whole) // 2], whole[:-3] + b"abc"):
        wrong.write_bytes(content)
        with pytest.raises(DamagedFile, match=r"notes\.txt is not a deposit"):
            list(room.withdraw(job, [wrong]))
    stranger = room.deposit("digits", READY, ["five"], QUICK)
    room.wait(stranger)
    with pytest.raises(Mismatch, match="was not made from this network, which has deposited: zero, two"):
        list(room.withdraw(job, [room.deposit_file(stranger)]))
    with pytest.raises(UserError, match="twice"):
        list(room.withdraw(job, [room.deposit_file(job)] * 2))
    with pytest.raises(UserError, match="no file"):
        list(room.withdraw(job, []))
    assert "recovered" not in room.deposit_report(job)["table"]


def test_deposits_follow_one_another_and_come_back_in_any_order(room, job):
    later = room.deposit("digits", job, ["five"], QUICK)
    assert room.wait(later).result["gone"] == ["zero", "two", "five"]
    found = last(room.withdraw(later, [room.deposit_file(later)]))
    assert found["deposited"] == ["zero", "two", "five"] and "original" in found["table"]
    found = last(room.withdraw(later, [room.deposit_file(job)]))
    assert found["by class"]["recovered"][0] > 50 and found["by class"]["recovered"][5] > 50
    titles = [info.title for info in room.networks("digits")]
    assert titles[0] == "the ready one" and any("without zero, two, five" in title for title in titles)


@pytest.mark.parametrize(
    ("classes", "words"),
    [([], "unknown class"), (["zebra"], "known: zero"), (["zero"], "already left"), ("all", "every class")],
)
def test_classes_that_cannot_leave_are_refused_before_a_run_begins(room, job, classes, words):
    before, every = len(room.runs()), list(room.class_pictures("digits"))
    with pytest.raises(UserError, match=words):
        room.deposit("digits", READY if classes == "all" else job, every if classes == "all" else classes)
    assert len(room.runs()) == before


def test_nobody_reads_somebody_elses_deposit(room, job):
    for ask in (room.deposit_report, room.deposit_file, room.test_pictures):
        with pytest.raises(UserError, match="no run"):
            ask(job, owner="somebody")
    assert room.deposits(owner="somebody") == [] and room.networks("digits", owner="somebody")[0].id == READY


def test_an_interrupted_deposit_ends_in_the_same_deposit(room, job, tmp_path):
    other = Studio(tmp_path / "data", "cpu")
    cut = other.deposit("digits", READY, ["zero", "two"], QUICK)
    for _, data in other.follow(cut):
        if "snapshot" in data:
            break
    other.close()
    again = Studio(tmp_path / "data", "cpu")
    try:
        if again.run(cut).state is State.INTERRUPTED:  # else it was quicker than we
            again.resume(cut)
        assert again.wait(cut).state is State.DONE
        assert Deposit.load(again.deposit_file(cut)).id == Deposit.load(room.deposit_file(job)).id
    finally:
        again.close()


def test_a_network_is_trained_here_and_can_be_chosen(room, monkeypatch):
    from dataclasses import replace

    from engine import originals

    recipe = originals.RECIPES["digits"]
    monkeypatch.setitem(originals.RECIPES, "digits", replace(recipe, fit=replace(recipe.fit, epochs=2)))
    made = room.train_network("digits", seed=5)
    assert room.wait(made).state is State.DONE and room.run(made).result["scalars"]["test"] > 20
    assert made in [info.id for info in room.networks("digits")]
    with pytest.raises(UserError, match="left no network for people"):
        room.deposit("people", made, ["Ada"])


def test_an_npz_of_the_user_goes_the_whole_way(room, tmp_path, monkeypatch):
    from dataclasses import replace

    from engine import originals

    recipe = originals.RECIPES["fashion-mnist"]
    monkeypatch.setitem(originals.RECIPES, "fashion-mnist", replace(recipe, fit=replace(recipe.fit, epochs=1)))
    random, source = np.random.default_rng(0), str(tmp_path / "mine.npz")
    y = np.arange(60, dtype=np.uint8) % 3
    x = (random.integers(0, 80, (60, 28, 28)) + 80 * y[:, None, None]).astype(np.uint8)
    np.savez(source, x_train=x, y_train=y, x_test=x[:12], y_test=y[:12], classes=["bag", "coat", "shoe"])
    assert list(room.class_pictures("fashion-mnist", source)) == ["bag", "coat", "shoe"]
    network = room.train_network("fashion-mnist", source=source, architecture="tiny")
    assert room.wait(network).state is State.DONE
    made = room.deposit("fashion-mnist", network, ["coat"], QUICK, source=source)
    assert room.wait(made).state is State.DONE, room.run(made).error
    assert "recovered" in last(room.withdraw(made, [room.deposit_file(made)]))["table"]


def test_data_sets_say_what_they_need(room):
    known = {info.name: info for info in room.data_sets()}
    assert known["digits"].ready and known["people"].ready and not known["digits"].place
    assert "npz" in known["cifar10"].place and not known["cifar10"].ready
    assert list(room.class_pictures("digits"))[:2] == ["zero", "one"]
    with pytest.raises(UserError, match="point at an npz"):
        room.class_pictures("cifar10")


# The command line


def test_deposit_withdraw_and_report_from_the_command_line(tmp_path, capsys):
    place, file = ["--data", str(tmp_path / "data")], str(tmp_path / "mine.safetensors")
    quick = [word for name, value in QUICK.items() for word in ("--set", f"{name}={value}")]
    words = ["lirf", "deposit", "--dataset", "digits", "--classes", "zero, two", *quick, "--out", file, *place]
    assert app.main([*words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["gone"] == ["zero", "two"] and made["file"] == file
    assert app.main(["lirf", "report", made["run"], *place]) == 0
    assert "H Mean" in capsys.readouterr().out
    assert app.main(["lirf", "withdraw", made["run"], file, *place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"]["recovered"]["Dep"] > 50
    assert app.main(["lirf", "report", *place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"run": made["run"], "data": "digits", "classes": ["zero", "two"]}]
    (tmp_path / "mine.safetensors").write_bytes(b"damaged")
    assert app.main(["lirf", "withdraw", made["run"], file, *place]) == 1
    assert "is not a deposit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("deposit", "--dataset", "digits"), "--classes: name at least one"),
        (("deposit", "--dataset", "digits", "--classes", "zebra"), "unknown class zebra"),
        (("deposit", "--dataset", "digits", "--classes", "zero", "--preset", "best"), "as-described"),
        (("deposit", "--dataset", "digits", "--classes", "zero", "--set", "speed=1"), "no setting 'speed'"),
        (("deposit", "--dataset", "cats", "--classes", "zero"), "known: "),
        (("deposit", "--dataset", "cifar10", "--classes", "cat"), "point at an npz"),
        (("withdraw",), "name the run"),
        (("withdraw", "0123456789ab"), "no run"),
        (("report", "0123456789ab"), "no run"),
    ],
)
def test_a_call_that_cannot_be_done_is_answered_with_a_sentence(tmp_path, capsys, words, sentence):
    assert app.main(["lirf", *words, "--data", str(tmp_path)]) == 1
    assert sentence in capsys.readouterr().err
