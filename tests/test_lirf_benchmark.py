"""The LIRF benchmark: what it plans, and that its tables say what was measured."""

import json

import pytest

from benchmarks import lirf
from benchmarks.lirf_tables import print_goals, print_ratios, print_students, print_table_1, spread
from engine.originals import RECIPES

FAST = {"steps": 3, "dreams": 0}


@pytest.fixture(scope="module")
def found():
    """Real measurements of two short deposits, under the names of the plan."""
    ours, coded = (lirf.one_deposit("digits", 0, preset, FAST) for preset in ("ours", "as coded"))
    return {("digits", "ours", 0): ours, ("digits", "as coded", 0): coded}


def test_every_goal_has_its_pieces_in_the_plan():
    jobs = lirf.plan(set(lirf.PARTS), 3)
    for data in ("people", "cifar10"):
        assert {(data, preset, seed) for preset in ("ours", "as coded") for seed in range(3)} <= set(jobs)
    assert sum(name[0] == "ratios" for name in jobs) == len(lirf.RATIOS)
    lessons = [name for name in jobs if name[0] in lirf.STUDENTS]
    assert len(lessons) == len(lirf.STUDENTS) * (1 + 4 * len(lirf.TEACHERS))
    assert lirf.plan({"digits"}, 1).keys() == {("digits", p, 0) for p in (*lirf.PRESETS, "independent")}


def test_another_seed_deposits_other_classes():
    digits = lirf.load("digits")
    chosen = [lirf.choice(digits, seed) for seed in range(3)]
    assert len(set(chosen)) == 3 and all(len(classes) == 3 for classes in chosen)


def test_the_table_shows_mean_and_spread_of_what_was_measured(found, capsys):
    print_table_1("digits", RECIPES["digits"], lirf.load("digits"), found, 1)
    text = capsys.readouterr().out
    pre = found["digits", "ours", 0]["table"]["target"]["Pre"]
    header, row = (
        next(line for line in text.splitlines() if line.startswith(start)) for start in ("| metric", "| Pre")
    )
    place = [cell.strip() for cell in header.split("|")].index("ours: target")
    assert row.split("|")[place].strip() == spread([pre])
    assert "restricted to the kept classes" in text


def test_goals_are_judged_by_the_numbers(found, capsys):
    print_goals(found, ["digits"], 1)
    text = capsys.readouterr().out
    assert "**no**" in next(line for line in text.splitlines() if "90 %" in line), "three steps forget nothing"
    assert "yes" in next(line for line in text.splitlines() if "25 %" in line)


def test_pruning_and_students_are_printed_row_by_row(found, capsys):
    print_ratios({("ratios", 0.5): found["digits", "ours", 0]}, [0.5])
    lesson = lirf.LESSONS[1]
    answers = {
        ("tiny", None, "a"): (90.0, 91.0),
        ("tiny", lesson, "a"): (92.0, 93.0),
        ("tiny", lesson, "b"): (92.5, 90.0),
    }
    teachers = {("teacher", "a"): (99.0, 98.0), ("teacher", "b"): (99.0, 2.0)}
    print_students(answers | teachers, ["tiny"], ["a", "b"], [None, lesson])
    text = capsys.readouterr().out
    assert "| 50% |" in text and "92.5 / 90.0 (+0.5 / -3.0)" in text


def test_finished_pieces_are_not_done_again(tmp_path):
    kept = tmp_path / "runs.json"
    kept.write_text(json.dumps({repr(("digits", "ours", 0)): {"seen": 1}}))
    jobs = {("digits", "ours", 0): (lirf.one_deposit, "digits", 0, "no such preset")}
    assert lirf.work_through(jobs, kept) == {("digits", "ours", 0): {"seen": 1}}
