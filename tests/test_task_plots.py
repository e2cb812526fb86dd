"""What the Tasks & masks tab draws, from plain values."""

import itertools

import pytest
from fastapi.testclient import TestClient

from engine.core.joblog import State
from engine.studio import Studio
from webui.app import site
from webui.recover import taskplots
from webui.recover.taskview import answer, forgotten_part, live_part
from webui.view import is_node

SIZES = (808, 3909, 6958, 7400, 17_590, 36_981, 39_490, 52_576, 55_501, 197_608, 240_952)


def nodes(tree):
    """Every node of a tree."""
    yield tree
    for child in tree[2:]:
        if is_node(child):
            yield from nodes(child)


def texts(tree):
    return [child for node in nodes(tree) for child in node[2:] if isinstance(child, str)]


def dots(scores):
    return [
        {"title": f"Method {n}", "bytes": size, "accuracy": score, "kind": "family", "source": "benchmark"}
        for n, (size, score) in enumerate(zip(SIZES, scores, strict=True))
    ]


@pytest.mark.parametrize("scores", [[1.0] * 11, [0.5 + n / 22 for n in range(11)]])
def test_no_name_of_a_dot_covers_another(scores):
    names = [n for n in nodes(taskplots.bits_plot(dots(scores))) if n[0] == "text" and "name" in n[1].get("class", "")]
    assert len(names) == 11
    boxes = []
    for node in names:
        x, y, half = float(node[1]["x"]), float(node[1]["y"]), 3.3 * len(node[2])
        assert 0 < y < taskplots.TALL
        boxes.append((x - half, x + half, y - 11, y + 2))
    assert not any(taskplots.covers(a, b) for a, b in itertools.combinations(boxes, 2))


def test_the_heat_map_marks_where_a_task_left_and_came_back():
    matrix = [
        {"event": "learn", "task": 0, "scores": {0: 0.99}},
        {"event": "learn", "task": 1, "scores": {0: 0.5, 1: 1.0}},
        {"event": "forget", "task": 0, "scores": {1: 1.0}},
        {"event": "restore", "task": 0, "scores": {0: 0.5, 1: 1.0}},
    ]
    cells = [n for n in nodes(taskplots.heat_map(matrix, 3)) if n[0] == "td"]
    assert [n[1]["class"] for n in cells if "own" in n[1]["class"]] == [
        "l7 own learn", "l7 own learn", "lnone own forget", "l0 own restore"
    ]  # fmt: skip
    assert "gone" in texts(taskplots.heat_map(matrix, 3))


def test_an_arrow_goes_from_a_task_to_each_that_was_built_on_it():
    tasks = [
        {"task": 0, "state": "live", "dependents": {2: "weights"}},
        {"task": 1, "state": "forgotten"},
        {"task": 2, "state": "live", "dependents": {}},
    ]
    drawn = taskplots.dependents_graph(tasks)
    assert "Task 2 reads weights of task 0." in texts(drawn)
    assert sum("tip" in node[1].get("class", "") for node in nodes(drawn)) == 1
    assert "without a trace" in " ".join(texts(taskplots.dependents_graph(tasks[2:])))


def test_a_forgotten_task_says_what_is_left_of_it():
    grades = {"access": True, "storage": False, "influence": None}
    left = {"event": "forget", "task": 1, "also": [], "grades": grades, "kept_for": {"2": "weights"}}
    session = {"name": "one", "receipts": [left], "method": {"order_free": False}}
    said = " ".join(texts(forgotten_part(session, {"task": 1, "vault": "x.safetensors"}, {})))
    assert "None of its own bytes left: no, some are kept for task 2 (weights)." in said
    assert "only a twin run could tell" in said


def test_only_a_method_whose_tasks_share_offers_other_ways_to_forget():
    bits = dict.fromkeys(("mask", "index", "weights", "norm", "head", "snapshot", "coded"), 8)
    line = {"score": 1.0, "bits": bits, "dependents": {}, "overlay": False}
    for order_free, modes in ((True, {"mask"}), (False, {"mask", "exclusive", "cascade"})):
        drawn = live_part({"method": {"order_free": order_free}}, line, {})
        assert {node[1]["data-mode"] for node in nodes(drawn) if "data-mode" in node[1]} == modes


def test_an_unknown_answer_is_not_dressed_as_one():
    said = {"task": "unknown", "by": "one-shot", "labels": (), "margin": (), "belief": {0: 0.0}, "truth": "six"}
    assert "No learned task stands out" in " ".join(texts(answer(said, {}, 15)))


def test_a_vault_file_goes_to_its_owner_only(tmp_path):
    studio = Studio(tmp_path, device="cpu", base="tiny")
    try:
        row = studio.wait(studio.begin_tasks("supsup", "digits", {"steps": 2}))
        session = row.params["session"]
        assert studio.wait(studio.learn_task(session)).state is State.DONE
        assert studio.wait(studio.forget_task(session, 0)).state is State.DONE
        with TestClient(site(studio, hosts=("testserver",))) as client:
            answered = client.get(f"/vaults/{session}/0")
            assert answered.content == studio.task_vault(session, 0).read_bytes()
            assert client.get(f"/vaults/{session}/1").status_code == 404
            assert client.get("/vaults/..%2F..%2Fstudio/0").status_code in (400, 404)
            client.cookies.set("lethe", "0" * 32)
            assert client.get(f"/vaults/{session}/0").status_code == 404
        with TestClient(site(studio, ("ann", "river"))) as client:
            assert client.get(f"/vaults/{session}/0").status_code == 401
    finally:
        studio.close()
