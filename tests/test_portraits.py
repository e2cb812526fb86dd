"""A person on the desk: only for their owner, only in memory, and shown as the run will show them."""

import io

import numpy as np
import pytest
from PIL import Image

from engine import assets
from engine.core.errors import UserError
from engine.core.joblog import State
from engine.core.targets import has_photo
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
    searches = [event for event in events if getattr(event, "note", "") == "looking for the face"]
    assert len(searches) == 1  # only for the mirror image
    request = events[-1].result
    assert (request.forget.w == held.w).all() and (request.extra["mirrors"] != held.w).any()


@pytest.mark.assets
@pytest.mark.skipif(not assets.is_present("recogniser-b"), reason="the judge is not fetched")
@needs
def test_several_people_are_erased_in_one_run_and_each_gets_an_erasure_of_its_own(studio):
    tokens = [studio.generated_portrait(seed, "tiny") for seed in (3, 4)]
    job = studio.erase_portraits(dict.fromkeys(tokens, ""), {"checked": 8, "order": "one after another"})
    row = studio.wait(job)
    assert row.state is State.DONE and row.params["target"]["kind"] == "People"
    people = row.result["verdict"]["people"]
    assert people["names"] == ["seed 3", "seed 4"] and len(people["matrix"]) == 2
    assert people["matrix"][0][0] < people["matrix"][0][1] and set(people["alike"]) == {"before", "after"}
    names = studio.keep(job)
    assert len(names) == 2 and studio.active("tiny") == names
    assert studio.run(studio.repeat(job)).params == row.params
    with pytest.raises(UserError, match="no longer in memory"):
        studio.show_targets(tokens[0], "opposite", [0.8])


def test_people_found_in_different_models_cannot_share_a_run(studio):
    job = studio.erase_portrait(studio.generated_portrait(3, "tiny"), "", {}, method="guide")
    studio.wait(job)
    (name,) = studio.keep(job)
    here, there = studio.generated_portrait(4, "tiny"), studio.generated_portrait(5, "tiny", deltas=[name])
    with pytest.raises(UserError, match="different models"):
        studio.erase_portraits({here: "", there: ""}, {})
    with pytest.raises(UserError, match="nobody is chosen"):
        studio.erase_portraits({}, {})


def test_a_run_with_a_photo_among_its_people_keeps_no_picture_of_them():
    assert has_photo({"kind": "People", "people": [{"kind": "Seeds"}, {"kind": "Photo"}]})
    assert not has_photo({"kind": "People", "people": [{"kind": "Seeds"}]}) and not has_photo({})
