"""Photos as codes to compare: found one after another, in memory, for their owner."""

import base64
from types import SimpleNamespace

import gradio as gr
import pytest

from engine.core.errors import UserError
from tests.test_portraits import faces, needs, photo  # noqa: F401 (a fixture)
from webui.comparison import Comparison, drawn
from webui.photocodes import PhotoCodes

ANN = SimpleNamespace(headers={"x-lethe-owner": "ann"}, session_hash="one page")


def sent(count):
    return SimpleNamespace(photos=[base64.b64encode(photo()).decode()] * count)


@pytest.fixture
def codes(studio):
    with gr.Blocks():
        return PhotoCodes(studio)


@pytest.mark.assets
@needs
def test_the_faces_of_photos_are_found_and_drawn_by_both_versions(studio, codes, faces, monkeypatch):  # noqa: F811
    faces(1)
    monkeypatch.setattr(studio, "is_of_faces", lambda base: True)
    last = {}
    for update in codes.find("tiny", sent(2), ANN):
        last |= update
    tokens = last[codes.tokens]
    assert len(tokens.split(",")) == 2 and "as found" in str(last[codes.found])
    shown = drawn(studio, Comparison("tiny", of="photos", which=tokens), 16, "ann")["value"]
    assert [pair["label"] for pair in shown] == ["photo 1", "photo 2"] and shown[0]["a"] == shown[0]["b"]
    with pytest.raises(UserError, match="no longer in memory"):
        drawn(studio, Comparison("tiny", of="photos", which=tokens), 16, "bob")
    assert not [path for path in studio.store.root.rglob("*") if path.suffix in (".png", ".webp", ".jpg")]


def test_a_model_that_draws_no_faces_refuses_photos_in_words(codes):
    with pytest.raises(UserError, match="draws no faces"):
        next(codes.find("tiny", sent(1), ANN))
