"""`masks` on the command line: a script of steps on a session that is there afterwards."""

import argparse
import json

import pytest

from engine.commands import verbs
from engine.core.errors import UserError
from engine.studio import Studio


@pytest.fixture
def ask(tmp_path):
    """Calls the verb as `app.py` does."""
    studio = Studio(tmp_path, device="cpu")

    def call(*words, as_json=True):
        parser = argparse.ArgumentParser()
        verbs["masks"].arguments(parser)
        args = parser.parse_args(words)
        args.json = as_json
        return verbs["masks"].run(args, lambda: studio)

    yield call
    studio.close()


QUICK = ("--method", "packnet", "--set", "steps=4", "--set", "batch=8")


def test_a_script_of_steps_leaves_a_session_that_can_be_shown(ask):
    said = ask("run", "one", *QUICK, "--do", "learn", "learn", "forget 1 exclusive", "restore 1")
    assert [line["state"] for line in said["tasks"]][:3] == ["live", "live", "new"]
    assert [row["event"] for row in said["matrix"]] == ["learn", "learn", "forget", "restore"]
    assert said["receipts"][-1]["equal"] is True
    assert said["receipts"][-1]["difference"] == 0.0
    assert json.loads(json.dumps(said)) is not None
    assert ask("list") == ["one"]
    assert ask("show", "one")["receipts"] == said["receipts"]


def test_a_session_goes_on_where_it_stopped(ask, capsys):
    ask("run", "one", *QUICK, "--do", "learn")
    assert ask("run", "one", "--do", "learn", "forget 1", as_json=False) is None
    printed = capsys.readouterr().out
    assert "Learned task 1" in printed
    assert "Forgot task 1" in printed
    with pytest.raises(UserError, match="task 0 is already learned"):
        ask("run", "one", "--do", "learn 0")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "one", "--do", "unlearn 1"), "step 'unlearn 1': must be"),
        (("run", "One"), "give it a name of small letters"),
        (("run", "one", "--set", "speed=1"), "has no setting 'speed'; known: steps"),
        (("run", "one", "--set", "steps=many"), "'many' is not a number"),
        (("run", "one", "--method", "pack"), "unknown mask method 'pack'"),
        (("show", "two"), "two holds no session"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(ask, words, sentence):
    with pytest.raises(UserError, match=sentence):
        ask(*words)
    assert ask("list") == []
