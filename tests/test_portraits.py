"""A person on the desk: only for their owner, only in memory, and shown as the run will show them."""

import io

import numpy as np
import pytest
from PIL import Image

from engine import assets
from engine.core.errors import UserError
from engine.core.joblog import State
from engine.faces import detect
from engine.requests import prepare
from engine.studio.portraits import HELD

needs = pytest.mark.skipif(
    not all(assets.is_present(name) for name in ("recogniser-a", "lpips-alex")),
    reason="the networks of the losses are not fetched: run 'python app.py assets fetch'",
)
POINTS = np.array([[38, 40], [58, 40], [48, 52], [40, 64], [56, 64]], np.float64)


def photo() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (96, 128, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def faces(monkeypatch):
    """As many faces as asked for in any picture."""

    def see(count):
        found = [detect.Face(np.array([30.0 + n, 28, 66, 76]), POINTS, 0.99) for n in range(count)]
        monkeypatch.setattr(detect, "find", lambda pixels, device="cpu": found)

    return see


def test_a_photo_gives_its_faces_as_shares_of_its_sides(studio, faces):
    faces(2)
    found = studio.open_portrait(photo(), "tiny")
    assert len(found.boxes) == 2 and found.boxes[0] == pytest.approx((30 / 128, 28 / 96, 66 / 128, 76 / 96))
    assert studio.portrait_pixels(found.token).shape == (96, 128, 3)
    assert studio.portrait_pixels(found.token, 1, size=32).shape == (32, 32, 3)


def test_a_photo_without_a_face_is_refused_in_words(studio, faces):
    faces(0)
    with pytest.raises(detect.NoFace, match="No face found"):
        studio.open_portrait(photo(), "tiny")


def test_a_portrait_is_for_its_owner_only_and_the_oldest_go(studio, faces):
    faces(1)
    token = studio.open_portrait(photo(), "tiny", owner="ann").token
    with pytest.raises(UserError, match="no longer in memory"):
        studio.portrait_pixels(token, owner="bob")
    studio.portrait_pixels(token, owner="ann")
    for seed in range(HELD):
        studio.generated_portrait(seed, "tiny")
    with pytest.raises(UserError, match="no longer in memory"):
        studio.portrait_pixels(token, owner="ann")


@pytest.mark.parametrize("kind", ["opposite", "average", "random"])
def test_the_target_shown_beforehand_is_what_the_run_shows(studio, kind):
    token = studio.generated_portrait(3, "tiny")
    (shown,) = studio.show_targets(token, kind, [0.8])
    job = studio.erase_portrait(token, "", {"target": kind, "distance": 0.8, "steps": 0})
    assert studio.wait(job).state is State.DONE
    (made,) = studio.draw("tiny", [f"run:{job}"], [3], psi=1.0)
    assert np.abs(made.astype(int) - shown).max() <= 2
    with pytest.raises(UserError, match="no longer in memory"):  # once erased, the person is off the desk
        studio.show_targets(token, kind, [0.8])


def test_nobody_is_erased_before_their_code_is_found(studio, faces):
    faces(1)
    token = studio.open_portrait(photo(), "tiny").token
    with pytest.raises(UserError, match="not found yet"):
        studio.erase_portrait(token, "", {})


@pytest.mark.assets
@needs
def test_a_found_code_is_not_searched_again_by_the_run(studio, faces, monkeypatch):
    faces(1)
    token = studio.open_portrait(photo(), "tiny").token
    assert studio.add_other_photo(token, photo()) == 1
    *_, picture = studio.find_person(token)
    assert picture.shape == (16, 16, 3)
    held = studio._portraits.get(token, "local")
    from engine.core.targets import Photo

    target = Photo(held.pixels, 0, "a person", (), held.w.numpy())
    events = list(prepare(studio.models.base("tiny"), target))
    assert len(events) == 1 and (events[0].result.forget.w == held.w).all()
