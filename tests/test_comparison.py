"""A comparison as a value, a report and a picture."""

import io
import json
import re

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.core.errors import UserError
from engine.core.targets import Seeds
from engine.studio import LOCAL, Studio
from webui.app import site
from webui.changecards import change_cards
from webui.comparison import KINDS, Comparison, codes, drawn, in_words, steps_of

NASTY = "</script><img src=x onerror=window.hacked=1>${1}"
NAMES = st.lists(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,9}|run:[0-9a-f]{12}", fullmatch=True), max_size=3).map(tuple)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    made = Studio(tmp_path_factory.mktemp("compare"), "cpu", base="tiny")
    job = made.forget("tiny", Seeds((3,)), "ascent", {"steps": 20, "lr": 1e-2})
    made.wait(job)
    made.labels.set_many(LOCAL, "tiny", NASTY, {5: 1, 6: 0, 7: 1})
    yield made
    made.close()


@pytest.fixture(scope="module")
def door(studio):
    with TestClient(site(studio)) as client:
        yield client


@pytest.fixture
def job(studio):
    return studio.runs()[0].id


@given(
    st.builds(
        Comparison,
        base=st.just("tiny"),
        left=NAMES,
        right=NAMES,
        of=st.sampled_from(sorted(KINDS)),
        which=st.text(min_size=1, max_size=20),
        psi=st.floats(0, 1),
        step=st.integers(0, 999),
    )
)
def test_a_comparison_survives_its_own_address(asked):
    from urllib.parse import parse_qsl

    assert Comparison.read(dict(parse_qsl(asked.query))) == asked


@pytest.mark.parametrize("query", [{"psi": "x"}, {"psi": "nan"}, {"psi": "9"}, {"of": "passwords"}, {"step": "1.5"}])
def test_an_address_that_is_no_comparison_is_refused(query):
    with pytest.raises(UserError, match="no comparison"):
        Comparison.read(query)


def test_labelled_samples_are_those_of_the_owner_with_the_feature_first(studio):
    asked = Comparison("tiny", of="labels", which=NASTY)
    assert codes(studio, asked, LOCAL) == {5: "with, seed 5", 7: "with, seed 7", 6: "without, seed 6"}
    assert asked.truncation == 1.0
    with pytest.raises(UserError, match="nothing is labelled"):
        codes(studio, asked, "bob")


def test_the_steps_of_a_run_are_compared_from_any_of_them(studio, job):
    assert sorted(steps_of(studio, job, LOCAL)) == [0, 1, 10, 20]
    shown = drawn(studio, Comparison("tiny", of="run", which=job, step=10), 0, LOCAL)
    (pair,) = shown["value"]
    assert shown["steps"] == [0, 1, 10, 20] and len(pair["b"]) == 4
    assert pair["a"] == pair["b"][2] != pair["b"][3]
    with pytest.raises(UserError, match="no run"):
        drawn(studio, Comparison("tiny", of="run", which=job), 0, "bob")


def test_a_report_is_one_file_that_asks_nobody_and_in_which_no_text_becomes_markup(studio, door):
    asked = Comparison("tiny", right=(f"run:{studio.runs()[0].id}",), of="labels", which=NASTY)
    answer = door.get(f"/comparison.html?{asked.query}")
    text = answer.text
    assert answer.status_code == 200 and re.search(r"attachment.*\.html", answer.headers["content-disposition"])
    assert text.count("data:image/webp") >= 6 and "default-src &#x27;none&#x27;" in text
    assert not re.findall(r"(?:src|href)=[\"']?(?!data:)[a-z./]", re.sub(r"<script>.*?</script>", "", text, flags=re.S))
    assert "<img src=x" not in text and text.count("<script>") == text.count("</script>") == 4
    assert "How it looks" in text or "Pixels" in text


def test_a_picture_holds_every_pair(studio, door, job):
    asked = Comparison("tiny", right=(f"run:{job}",), which="0-5")
    answer = door.get(f"/comparison.png?{asked.query}")
    picture = Image.open(io.BytesIO(answer.content))
    assert answer.headers["content-type"] == "image/png" and picture.width == 4 * (2 * 128 + 16) + 16
    steps = door.get(f"/comparison.png?{Comparison('tiny', of='run', which=job).query}")
    assert Image.open(io.BytesIO(steps.content)).format == "PNG"


@pytest.mark.parametrize("kind", ["html", "png"])
def test_what_cannot_be_compared_is_refused_in_words(door, kind):
    for query in ("base=nobody", "base=tiny&which=no+seeds", "base=tiny&of=run&which=0123456789ab", "base=tiny&psi=7"):
        answer = door.get(f"/comparison.{kind}?{query}")
        assert answer.status_code == 400 and answer.json()["error"], query


def test_what_is_compared_is_said_with_the_models_fingerprint(studio, job):
    said = in_words(studio, Comparison("tiny", right=(f"run:{job}",)), LOCAL)
    assert studio.facts("tiny")["fingerprint"] in said["Model"] and said["Erased before"] == "nothing"
    assert "1 generated sample" in said["Erased after"]


def test_cards_say_words_first_and_what_they_mean():
    found = {"pairs": 16, "side": 128, "equal": 16, "pixels": (0.0, 0.0, 0.0)}
    assert "All 16 pairs are equal" in str(change_cards(found)) and "LPIPS" not in str(change_cards(found))
    drift = {"glasses": {"before": 50.0, "after": 6.25, "points": -43.75, "error": 25.0}}
    more = {"equal": 2, "lpips": (0.04, 0.03, 0.05), "likeness": (0.95, 0.9, 1.0), "strangers": 0.2, "drift": drift}
    said = json.dumps(change_cards(found | more))
    for words in (
        "Changed a little",
        "2 of 16 pairs are equal",
        "The same people",
        "glasses, less often",
        "± 25 points",
    ):
        assert words in said or words.replace("±", "\\u00b1") in said, words
    assert said.count("What this means") == 4
