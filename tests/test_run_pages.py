"""Runs as zips through the door, and two runs side by side, without a browser."""

import io
import zipfile

import pytest
from fastapi.testclient import TestClient

from engine.core.targets import Seeds
from engine.studio import Studio
from webui.app import site
from webui.comparison import Comparison
from webui.tworuns import two_runs, version_of


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    made = Studio(tmp_path_factory.mktemp("runs"), "cpu", base="tiny")
    job = made.forget("tiny", Seeds((3,)), "ascent", {"steps": 4})
    made.wait(job)
    made.wait(made.repeat(job))
    made.wait(made.forget("tiny", Seeds((3,)), "ascent", {"steps": 5}))
    yield made
    made.close()


@pytest.fixture(scope="module")
def door(studio):
    with TestClient(site(studio)) as client:
        yield client


def scraps(studio):
    return [path for path in studio.store.bases.iterdir() if path.name.startswith(".")]


def test_a_run_goes_out_and_comes_in_and_leaves_no_scrap(studio, door):
    job = studio.runs()[-1].id
    answer = door.get(f"/run-files/{job}")
    assert answer.status_code == 200 and f'filename="run-{job}.zip"' in answer.headers["content-disposition"]
    assert "run.json" in zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
    arrived = door.put("/run-files", content=answer.content).json()["name"]
    assert studio.run(arrived).result["from"] == job and not scraps(studio)
    studio.delete_delta(studio.run(arrived).result["kept"][0])
    studio.delete_run(arrived)


def test_what_is_no_run_is_refused_in_words_and_leaves_no_scrap(studio, door):
    refused = door.put("/run-files", content=b"PK\3\4 and then nothing")
    assert refused.status_code == 400 and "zip of a run" in refused.json()["error"]
    assert door.get("/run-files/0123456789ab").status_code == 404 and not scraps(studio)


def test_with_a_password_runs_stay_inside(studio):
    with TestClient(site(studio, ("ann", "river"))) as client:
        assert client.get(f"/run-files/{studio.runs()[0].id}").status_code == 401
        assert client.put("/run-files", content=b"x").status_code == 401
    assert not scraps(studio)


def test_a_repeated_run_gave_the_same_delta_and_another_setting_another(studio):
    other, again, first = studio.runs()
    same = str(two_runs(first, again))
    assert "the same delta, bit for bit" in same and "(differs)" not in same.partition("Scores")[0]
    unlike = str(two_runs(first, other))
    assert "different deltas" in unlike and "['td', {'class': 'quiet'}, 'steps', ' (differs)']" in unlike


def test_two_runs_link_to_their_pictures_while_these_can_be_drawn(studio):
    other, again, _ = studio.runs()
    asked = Comparison("tiny", left=(f"run:{again.id}",), right=(f"run:{other.id}",))
    assert f"./compare?{asked.query}" in str(two_runs(again, other))
    studio.discard(again.id)
    assert version_of(studio.run(again.id)) is None
    assert "./compare" not in str(two_runs(studio.run(again.id), other))
