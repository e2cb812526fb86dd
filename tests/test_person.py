"""What the identity page says: the engine's numbers, in words that fit them."""

import base64
from types import SimpleNamespace

import pytest

from engine.core.errors import UserError
from webui.person import photo_tree, strip_tree, verdict_cards
from webui.photodrop import photos

VERDICT = {
    "person": (-0.2, -0.3, -0.1),
    "everyone": (0.97, 0.96, 0.98),
    "drift": (0.021, 0.02, 0.022),
    "strangers": (0.02, 0.15, 0.36),
    "other_photos": (0.62, 0.4, 0.8),
}


def text(node) -> str:
    return node if isinstance(node, str) else " ".join(text(child) for child in node[2:])


def test_three_cards_say_words_first_and_the_engines_numbers_second():
    said = text(verdict_cards(VERDICT))
    assert "This person Now a stranger likeness before and after -0.20" in said
    assert "Their other photos Still recognisable likeness before and after 0.62" in said
    assert "Everyone else As before likeness before and after 0.97 (1 is untouched), LPIPS 0.021" in said
    assert "three of four below 0.15" in said


def test_what_was_not_measured_is_said_to_be_so():
    said = text(verdict_cards({**VERDICT, "other_photos": None}))
    assert "Not measured no other photo was given" in said
    assert "the run was stopped" in text(verdict_cards({"unchecked": "the run was stopped before the check"}))


@pytest.mark.parametrize(
    ("kept", "words"), [(0.91, "As before"), (0.85, "Slightly changed"), (0.5, "Others change visibly")]
)
def test_collateral_is_called_by_its_size(kept, words):
    assert words in text(verdict_cards({**VERDICT, "everyone": (kept, 0, 1)}))


def test_every_face_has_a_frame_and_the_chosen_one_is_marked():
    tree = photo_tree("data:image/webp;base64,", [(0.1, 0.2, 0.3, 0.4), (0.5, 0.5, 0.75, 0.9)], 1)
    frames = [node for node in tree[2][3][2:] if node[0] == "rect"]
    assert [frame[1]["x"] for frame in frames] == ["10.00", "50.00"] and frames[1][1]["width"] == "25.00"
    assert [frame[1]["class"] for frame in frames] == ["", "chosen"]


def test_the_strip_marks_the_distance_nearest_to_the_slider():
    tree = strip_tree("data:,", [(0.0, "data:,"), (0.4, "data:,"), (0.8, "data:,")], 0.5)
    assert [figure[1]["class"] for figure in tree[3][2:]] == ["", "chosen", ""]


def test_only_whole_photos_are_taken_from_an_event():
    sent = base64.b64encode(b"abc").decode()
    assert photos(SimpleNamespace(photos=[sent])) == [b"abc"]
    for bad in ([], None, "abc", [3], ["not base64!"]):
        with pytest.raises(UserError):
            photos(SimpleNamespace(photos=bad))
    with pytest.raises(UserError, match="larger than 10 MB"):
        photos(SimpleNamespace(photos=["A" * 14_000_000]))
