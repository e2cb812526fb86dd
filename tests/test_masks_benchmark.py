"""The benchmark's script in its reduced form: few batches, the small split, the same promises."""

import json
from dataclasses import asdict

import pytest

from benchmarks.mask_tables import tell
from benchmarks.masks import METHODS, STEPS, load, plan_runs, run, summarise, work_off
from engine.core.errors import UserError
from engine.masks import mask_methods
from engine.masks.splits import splits


@pytest.fixture(scope="module")
def runs():
    return [run("digits", name, 0, 40, twin=name != "joint") for name in ("independent", "joint", "supsup", "packnet")]


def test_every_method_and_split_is_measured():
    assert set(METHODS) == set(mask_methods)
    assert set(STEPS) == set(splits)
    assert len(list(plan_runs("digits", list(METHODS), 3, 10))) == 3 * len(METHODS)


def test_the_script_forgets_nothing_unasked_and_restores_exactly(runs):
    for done in runs:
        if done.method != "joint":
            assert done.forgetting == 0.0
            assert done.drift == 0.0
            assert done.error == 0.0
            assert done.grades["G0"]
            assert done.grades["R"]
            assert [row["event"] for row in done.matrix] == ["learn"] * 5 + ["forget", "learn", "restore"]


def test_grades_are_those_that_the_method_can_reach(runs):
    grades = {done.method: done.grades for done in runs}
    assert grades["supsup"]["G1"]
    assert grades["supsup"]["G2"]
    assert not grades["packnet"]["G1"]
    assert not grades["packnet"]["G2"]
    assert grades["packnet"]["G2 last"]


def test_a_mask_is_smaller_than_a_network_and_learns_as_much(runs):
    by_name = {done.method: done for done in runs}
    assert by_name["supsup"].bits["total"] < by_name["independent"].bits["total"] / 20
    assert all(sum(done.final.values()) / len(done.final) > 0.9 for done in runs)


def test_the_tables_hold_every_run(runs, capsys):
    tell("digits", runs, 40)
    printed = capsys.readouterr().out
    for title in ("Independent networks", "Joint training", "SupSup", "PackNet"):
        assert f"| {title} |" in printed


def test_a_noted_run_is_not_made_again(runs, tmp_path):
    notes = tmp_path / "noted.jsonl"
    jobs = [("digits", done.method, 0, 40, done.method != "joint") for done in runs]
    notes.write_text("".join(json.dumps([job, asdict(done)]) + "\n" for job, done in zip(jobs, runs, strict=True)))
    assert list(work_off(jobs, 1, notes)) == runs


def test_the_page_gets_accuracy_and_bits_of_every_method_that_has_them(runs):
    told = summarise({"digits": runs}, {"digits": 40})["digits"]
    assert set(told) == {"independent", "supsup", "packnet"}
    assert told["supsup"]["bits"] == runs[2].bits["total"]
    assert told["supsup"]["seeds"] == 1


def test_a_split_without_its_data_is_skipped_with_a_reason(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("benchmarks.masks", fromlist=["PLACES"]).PLACES, "cifar10", tmp_path / "none.npz")
    assert load("cifar10") == "the CIFAR-10 subset is not beside the project"
    with pytest.raises(UserError, match="point at"):
        splits["cifar10"].load(None)
