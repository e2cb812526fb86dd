"""From a photo to a code, and nothing of the photo anywhere else."""

import numpy as np
import pytest
import torch

from engine import assets
from engine.core.events import Done, Progress, result
from engine.core.targets import Photo
from engine.faces import detect
from engine.generators.tiny import Tiny
from engine.inversion.encoder import FILE, WIDTH, Encoder
from engine.inversion.photo import aligned, invert
from engine.inversion.project import Projection
from engine.studio.forgetting import describe

needs = pytest.mark.skipif(
    not all(assets.is_present(name) for name in ("recogniser-a", "lpips-alex", "efficientnet-lite0")),
    reason="the networks of the losses are not fetched: run 'python app.py assets fetch'",
)
MARK = bytes(range(40, 232, 3))  # a row of pixels that nothing else writes


@pytest.fixture
def base():
    return Tiny(z_dim=32, w_dim=32).eval().requires_grad_(False)


def marked_photo() -> np.ndarray:
    pixels = np.random.default_rng(0).integers(0, 255, (96, 96, 3), np.uint8)
    pixels[40].reshape(-1)[: len(MARK)] = np.frombuffer(MARK, np.uint8)
    return pixels


@pytest.fixture
def a_face_everywhere(monkeypatch):
    """The detector sees one face in the middle of any picture."""
    points = np.array([[38, 40], [58, 40], [48, 52], [40, 64], [56, 64]], np.float64)
    face = detect.Face(np.array([30.0, 28, 66, 76]), points, 0.99)
    monkeypatch.setattr(detect, "find", lambda pixels, device="cpu": [face])


def test_an_encoder_gives_the_same_code_twice():
    encoder = Encoder(num_ws=5, w_dim=8, hidden=4).eval()
    features = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encoder(features), encoder(features)) and encoder(features).shape == (2, 5, 8)


@pytest.mark.assets
@needs
@pytest.mark.skipif(not FILE.exists(), reason="the encoder is not there: run 'python -m engine.train.encoder'")
def test_the_shipped_encoder_knows_two_pictures_apart_and_repeats_itself():
    from engine.inversion.encoder import encoder

    pictures = torch.rand(2, 3, 128, 128, generator=torch.Generator().manual_seed(0)) * 2 - 1
    first, again = encoder().encode(pictures), encoder().encode(pictures)
    assert torch.equal(first, again) and not torch.allclose(first[0], first[1])
    assert FILE.stat().st_size < 20e6


@pytest.mark.assets
@needs
def test_a_projection_comes_nearer_to_the_picture(base):
    w = base.map(base.sample_z([3]))
    picture = base.synth(w)
    found = result(Projection(steps=30, size=16, identity_weight=0).run(base, picture))
    first = (base.synth(base.w_avg[None]) - picture).abs().mean()
    assert (base.synth(found.w) - picture).abs().mean() < 0.6 * first


@pytest.mark.assets
@needs
def test_a_projection_that_is_stopped_keeps_what_it_has(base):
    task, answer, steps = Projection(steps=30, size=16).run(base, base.synth(base.w_avg[None])), None, 0
    while not isinstance(event := task.send(answer), Done):
        steps, answer = event.step, isinstance(event, Progress) and event.step == 2
    assert steps == 2 and event.result.w.shape == (1, base.num_ws, base.w_dim)


def test_the_record_of_a_photo_is_the_users_words_alone():
    assert describe(Photo(marked_photo(), 0, "my neighbour")) == {"kind": "Photo", "words": "my neighbour"}
    assert "array" not in repr(Photo(marked_photo()))


@pytest.mark.assets
@needs
def test_a_run_with_a_photo_leaves_nothing_of_it_on_disk(studio, a_face_everywhere):
    photo = marked_photo()
    job = studio.forget("tiny", Photo(photo, 0, "my neighbour"), "guide", {"steps": 1, "bank": 2, "identity_weight": 0})
    list(studio.follow(job))
    assert studio.run(job).error is None
    crop = ((aligned(photo, 0, 16, torch.zeros(1)) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()
    files = [path for path in studio.store.root.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        assert MARK not in content and crop[0, 8].tobytes() not in content, path


def test_the_chosen_face_is_aligned_and_scaled(a_face_everywhere, base):
    picture = aligned(marked_photo(), 0, 16, base.w_avg)
    assert picture.shape == (1, 3, 16, 16) and picture.abs().max() <= 1
    assert next(iter(invert(base, marked_photo()))).note == "looking for the face"
