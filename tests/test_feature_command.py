"""`label-export` and `erase-feature` as a person types them, from labels that were made in a browser."""

import json

import pytest

import app
from engine.core.labelbook import LabelBook
from tests.audit_aims import red, tiny

VISITOR, ANOTHER = "3f" * 16, "a0" * 16  # ids in cookies


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Runs a verb on a data folder of its own and gives code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = app.main([*map(str, words), "--data", str(tmp_path / "data")])
        return code, *capsys.readouterr()

    return run


def label(tmp_path, owner, feature="red"):
    target = red(tiny())
    labels = dict.fromkeys(target.having, 1) | dict.fromkeys(target.lacking, 0)
    (tmp_path / "data").mkdir(exist_ok=True)
    LabelBook(tmp_path / "data" / "studio.sqlite").set_many(owner, "tiny", feature, labels)
    return target


def test_labels_made_in_the_browser_are_exported_without_knowing_the_visitors_id(call, tmp_path):
    target = label(tmp_path, VISITOR)
    code, out, _ = call("label-export", "red", "--base", "tiny", "--json")
    assert code == 0 and json.loads(out) == {"file": "red.json"}
    rows = json.loads((tmp_path / "red.json").read_text())["labels"]
    assert {row["seed"] for row in rows if row["value"]} == set(target.having) and len(rows) == 100
    code, out, _ = call("label-export", "--base", "tiny", "--json")
    assert json.loads(out) == [{"feature": "red", "with": 25, "without": 75, "owner": VISITOR}]


def test_of_several_peoples_labels_one_must_be_named(call, tmp_path):
    label(tmp_path, VISITOR), label(tmp_path, ANOTHER), label(tmp_path, ANOTHER, "blue")
    code, _, said = call("label-export", "red", "--base", "tiny")
    assert code == 1 and VISITOR in said and ANOTHER in said and "--owner" in said
    assert call("label-export", "red", "--base", "tiny", "--owner", ANOTHER)[0] == 0
    assert call("label-export", "blue", "--base", "tiny", "--out", "blue.csv")[0] == 0
    code, _, said = call("label-export", "hat", "--base", "tiny")
    assert code == 1 and "nobody has labelled “hat” on tiny" in said


def test_a_feature_is_erased_from_a_file_of_labels_and_kept(call, tmp_path):
    label(tmp_path, VISITOR)
    call("label-export", "red", "--base", "tiny")
    code, out, _ = call("erase-feature", "red.json", "--preview", "--json")
    assert code == 0 and json.loads(out)["auc"] > 0.9
    code, out, said = call("erase-feature", "red.json", "--preset", "quick", "--keep", "--json")
    done = json.loads(out)
    assert code == 0, said
    assert len(done["kept"]) == 1 and done["verdict"]["words"]
    code, out, _ = call("runs", "--json")
    assert [row["state"] for row in json.loads(out)] == ["done"]
    code, _, said = call("erase-feature", "nothing.json")
    assert code == 1 and "name a file that label-export wrote" in said
