"""The door for scripts: a real server, called through gradio_client as anybody would."""

import base64
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from PIL import Image

import app
from tests.browser import ROOT, Server
from webui.app import build
from webui.endpoints import Endpoints, called, words

DOCS = " ".join((ROOT / "docs/endpoints.md").read_text().split())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("door"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(server):
    return Client(server.url, verbose=False)


@pytest.fixture
def ask(client):
    """ask("sample", seeds="1") as a script would call it."""
    return lambda name, **said: client.predict(**said, api_name=f"/{name}")


def opened(text):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))


def files_under(*folders):
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


# What is public


def test_exactly_the_documented_endpoints_are_public(studio, client):
    public = [fn.api_name for fn in build(studio).fns.values() if fn.api_visibility != "private"]
    assert public == list(Endpoints.listed())
    assert re.findall(r"### `(\w+)\(", DOCS) == public
    offered = client.view_api(print_info=False, return_format="dict")
    assert list(offered["named_endpoints"]) == [f"/{name}" for name in public] and not offered["unnamed_endpoints"]


@pytest.mark.parametrize("name", Endpoints.listed())
def test_the_document_says_of_an_endpoint_what_its_code_says(name):
    fn = Endpoints.listed()[name]
    assert f"### `{called(name, fn)}` {words(fn)}" in DOCS


# Journeys


def test_a_sample_is_erased_waited_for_kept_compared_and_taken_back(ask, client):
    (before,) = ask("sample", seeds="3", truncation=1.0)
    assert opened(before).shape == (16, 16, 3)
    run = ask("erase_seeds", seeds="3", method="ascent", settings={"steps": 6})
    steps = list(client.submit(run=run, api_name="/wait"))
    assert steps[-1]["state"] == "done" and not steps[-1]["is_live"] and steps[-1] == ask("run", run=run)
    (unkept,) = ask("sample", seeds="3", truncation=1.0, erasures=[f"run:{run}"])
    names = ask("keep", run=run)
    assert ask("erasures") == [{"name": names[0], "request": "seeds 3", "method": "ascent", "is_applied": True}]
    assert ask("sample", seeds="3", truncation=1.0) == [unkept] != [before]
    assert ask("compare", seeds="0-3")["equal"] < ask("compare", seeds="0-3", after=[])["equal"] == 4
    assert ask("apply", erasures=[])["words"].endswith("bit for bit.")
    assert ask("sample", seeds="3", truncation=1.0) == [before]
    assert run in [row["run"] for row in ask("runs")]


def test_a_run_is_stopped_and_its_result_discarded(ask):
    run = ask("erase_seeds", seeds="3", method="ascent", settings={"steps": 2000})
    ask("stop", run=run, keep=True)
    assert ask("wait", run=run)["state"] in ("done", "stopped")
    assert ask("discard", run=run)["result"]["discarded"]


def test_a_feature_is_labelled_and_erased_without_a_page(ask):
    pictures = [opened(text).astype(float) for n in range(2) for text in ask("sample", seeds=f"{50 * n}-{50 * n + 49}")]
    level = [(picture[..., 0] - picture[..., 2]).mean() for picture in pictures]
    having = [seed for seed in range(100) if level[seed] >= np.quantile(level, 0.75)]
    lacking = [seed for seed in range(100) if seed not in having]
    labels = ask("label", feature="red", having=",".join(map(str, having)), lacking=",".join(map(str, lacking)))
    assert labels == ask("label", feature="red")
    run = ask("erase_feature", labels=labels, preset="quick", settings={"steps": 4, "samples": 100})
    ended = ask("wait", run=run)
    assert ended["state"] == "done" and ended["result"]["verdict"], ended
    ask("discard", run=run)


def test_an_erasure_is_audited_and_the_report_comes_as_plain_values(ask):
    run = ask("erase_seeds", seeds="3", method="ascent", settings={"steps": 3})
    ask("wait", run=run)
    budget = {"tries": 2, "steps": 2, "retraining": 2, "samples": 16}
    audit = ask("audit", erasure=run, settings=budget)
    assert ask("wait", run=audit)["state"] == "done"
    report = ask("report", run=audit)
    assert report["verdict"] and report["findings"] and report["budget"]["tries"] == 2
    ask("discard", run=run)


def test_tasks_are_learned_forgotten_and_restored(ask):
    quick = {"steps": 6}
    assert ask("wait", run=ask("begin_tasks", session="over-http", settings=quick))["state"] == "done"
    for step, task in (("learn", None), ("forget", 0), ("restore", 0)):
        ended = ask("wait", run=ask("task_step", session="over-http", step=step, task=task))
        assert ended["state"] == "done", ended
    assert [row["event"] for row in ask("tasks", session="over-http")["matrix"]] == ["learn", "forget", "restore"]


def test_classes_leave_as_a_deposit_and_come_back(ask):
    run = ask("deposit", classes=["zero", "two"], data="digits", settings={"steps": 60, "dreams": 64})
    ended = ask("wait", run=run)
    assert ended["state"] == "done", ended
    table = ask("withdraw", run=run)["table"]
    assert table["target"]["Dep"] < table["recovered"]["Dep"] - 20


def test_the_example_goes_through_on_a_running_studio(server, tmp_path):
    script = [sys.executable, str(ROOT / "examples/over_http.py"), server.url]
    told = subprocess.run(script, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0 and "bit for bit" in told.stdout, told.stdout + told.stderr
    assert (tmp_path / "before.webp").read_bytes() != (tmp_path / "after.webp").read_bytes()


# Refusals


@pytest.mark.parametrize(
    ("name", "said", "sentence"),
    [
        ("sample", {"seeds": "seven"}, "Seeds 'seven': write numbers and ranges, such as 0-11, 20"),
        ("sample", {"seeds": 7}, "Seeds: must be text"),
        ("sample", {"size": True}, "Size: must be a whole number"),
        ("sample", {"erasures": [1]}, "Erasures: must be a list of texts"),
        ("sample", {"base": "nobody"}, "Unknown base 'nobody'; known:"),
        ("sample", {"erasures": ["none"]}, "There is no erasure none"),
        ("erase_seeds", {"seeds": "3", "method": "magic"}, "Unknown method 'magic'; known:"),
        ("erase_seeds", {"seeds": "3", "preset": "huge"}, "Unknown preset 'huge'; known: quick"),
        ("erase_seeds", {"seeds": "3", "settings": {"stepz": 4}}, "has no setting 'stepz'; known:"),
        ("erase_feature", {"labels": "no"}, "This is not a file of labels"),
        ("erase_person", {"photo": "no!"}, "This photo came damaged"),
        ("erase_person", {"photo": "bm8="}, "This is not an image we can read"),
        ("run", {"run": "0123456789ab"}, "no run 0123456789ab"),
        ("wait", {"run": "0123456789ab"}, "no run 0123456789ab"),
        ("keep", {"run": "../../etc"}, "no run"),
        ("task_step", {"session": "x", "step": "dance"}, "Step 'dance': must be learn, forget or restore"),
    ],
)
def test_a_wrong_call_is_answered_with_a_sentence(ask, name, said, sentence):
    with pytest.raises(AppError, match=re.escape(sentence)):
        ask(name, **said)


def test_what_breaks_inside_is_not_told():
    from webui.endpoints.spoken import spoken

    def breaks() -> str:
        raise RuntimeError("/secret/path")

    with pytest.raises(Exception, match="Something went wrong") as caught:
        spoken(breaks)()
    assert "secret" not in str(caught.value)


def test_a_browsers_runs_are_not_the_scripts(ask, server):
    browser = Client(server.url, verbose=False, headers={"cookie": f"lethe={'0' * 32}"})
    theirs = browser.predict(seeds="3", method="ascent", settings={"steps": 2}, api_name="/erase_seeds")
    with pytest.raises(AppError, match="no run"):
        ask("run", run=theirs)
    assert browser.predict(run=theirs, api_name="/wait")["state"] == "done"
    assert theirs not in [row["run"] for row in ask("runs")]


def test_a_photo_that_is_sent_is_written_nowhere(ask, server):
    content = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (200, 200, 3), np.uint8)
    Image.fromarray(noise).save(content, "PNG")
    text = base64.b64encode(content.getvalue()).decode()
    with pytest.raises(AppError, match="No face found"):
        ask("erase_person", photo=text)
    uploads = Path("/dev/shm").glob(f"lethe-{os.getuid()}-*")
    for path in files_under(server.data, *uploads):
        written = path.read_bytes()
        assert content.getvalue()[100:400] not in written and text[100:400].encode() not in written, path


def test_with_a_password_the_endpoints_ask_for_it_and_runs_belong_to_the_name(tmp_path):
    server = Server(tmp_path / "data", "--auth", "ann:river")
    try:
        with pytest.raises(Exception, match=r"(?i)auth|login|credentials|401"):
            Client(server.url, verbose=False)
        ann = Client(server.url, auth=("ann", "river"), verbose=False)
        run = ann.predict(seeds="3", method="ascent", settings={"steps": 2}, api_name="/erase_seeds")
        assert ann.predict(run=run, api_name="/wait")["state"] == "done"
    finally:
        server.close()
    from engine.studio import Studio

    studio = Studio(tmp_path / "data", "cpu")
    assert studio.run(run, None).owner == "ann"
    studio.close()


# The switch for MCP


def test_mcp_without_its_package_says_how_to_get_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert app.main(["--data", str(tmp_path), "--base", "tiny", "--port", "0", "--mcp"]) == 1
    assert 'pip install "gradio[mcp]==' in capsys.readouterr().err


def test_mcp_does_not_go_with_a_password(tmp_path, capsys):
    call = ["--data", str(tmp_path), "--base", "tiny", "--port", "0", "--mcp", "--auth", "ann:river"]
    assert app.main(call) == 1
    assert "cannot log in" in capsys.readouterr().err
