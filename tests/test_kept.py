"""Kept erasures: exact or approximate by fingerprint, and deleted with proof."""

import shutil

import pytest

from engine.core.errors import UserError
from engine.core.targets import Seeds


def keep_one(studio, seed, deltas=()):
    job = studio.forget("tiny", Seeds((seed,)), "ascent", {"steps": 3}, deltas=deltas)
    studio.wait(job)
    return job, studio.keep(job)[0]


def test_leaving_one_out_gives_the_rest_bit_for_bit_and_the_badge_says_when_no_run_gave_it(studio):
    base = studio.facts("tiny")["fingerprint"]
    assert studio.standing("tiny").is_exact and studio.standing("tiny").fingerprint == base
    _, first = keep_one(studio, 3)
    one = studio.standing("tiny")
    assert one.is_exact and one.fingerprint != base
    _, second = keep_one(studio, 4, [first])
    two = studio.standing("tiny")
    assert two.is_exact and studio.active("tiny") == [first, second]
    studio.activate("tiny", [second])
    assert not studio.standing("tiny").is_exact, "the second was made on top of the first"
    for names, expected in (([first], one), ([first, second], two)):
        studio.activate("tiny", names)
        assert studio.standing("tiny") == expected
    studio.activate("tiny", [])
    assert studio.standing("tiny").fingerprint == base


def test_two_erasures_that_know_nothing_of_each_other_are_approximate_together_and_exact_alone(studio):
    (_, first), (_, second) = keep_one(studio, 3), keep_one(studio, 4)
    assert not studio.standing("tiny").is_exact
    for name in (first, second):
        studio.activate("tiny", [name])
        assert studio.standing("tiny").is_exact


def test_a_deleted_erasure_leaves_no_file_and_the_search_says_so(studio):
    (job, name), (_, other) = keep_one(studio, 3), keep_one(studio, 4)
    assert list(studio.store.run_folder(job).iterdir()), "its pictures"
    gone = studio.delete_delta(name)
    assert f"deltas/{name}.safetensors" in gone.files and len(gone.files) > 1 and gone.bytes > 0
    assert gone.left == () and gone.searched > 0
    assert not [path for path in studio.store.root.rglob("*") if name in path.name or job in path.name]
    assert studio.active("tiny") == [other] and list(studio.deltas("tiny")) == [other]
    assert studio.run(job).result["deleted"] == [name], "its record in words stays"


def test_a_copy_under_another_name_is_found(studio):
    _, name = keep_one(studio, 3)
    shutil.copy(studio.store.delta_path(name), studio.store.root / "bases" / "harmless.bin")
    assert studio.delete_delta(name).left == ("bases/harmless.bin",)
    with pytest.raises(UserError, match="no erasure"):
        studio.delete_delta(name)
