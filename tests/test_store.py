import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import files
from engine.core.errors import UserError
from engine.files import atomic
from engine.store import checked


@given(st.text(max_size=80))
def test_a_name_never_leaves_its_folder(text):
    try:
        name = checked(text)
    except UserError:
        return
    assert "/" not in name and "\\" not in name and not name.startswith(".") and "\0" not in name


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_full_disk_is_said_in_words_and_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(UserError, match="disk is full"), atomic(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_a_damaged_delta_is_named_and_does_not_hide_the_others(studio):
    (studio.store.deltas / "broken.safetensors").write_bytes(b"nonsense")
    assert studio.deltas() == {} and studio.store.damaged() == ["broken.safetensors"]


def test_pictures_of_a_person_do_not_outlive_the_choice(studio):
    store, job = studio.store, "0123456789ab"
    pixels = np.zeros((4, 4, 3), np.uint8)
    for name in ("inversion", "before", "after", "before-worst-1"):
        store.preview(job, 1, name, pixels)
    store.forget_request(job)
    left = {path.name for path in store.run_folder(job).iterdir()}
    assert left == {"000001-before.webp", "000001-after.webp", "000001-before-worst-1.webp"}
    store.forget_portrait(job)
    assert {path.name for path in store.run_folder(job).iterdir()} == {"000001-before-worst-1.webp"}
