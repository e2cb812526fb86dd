"""A model leaves the studio whole: baked, or inside the very file it came from with nothing but its numbers changed."""

import json
import pickle
import pickletools
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch import nn

from engine.core.errors import Mismatch, UserError
from engine.delta import fingerprint
from engine.export import export_baked, export_drop_in
from engine.generators.tiny import Tiny
from engine.importer import reach, read, survey
from tests import published
from tests.published import SETTINGS, checkpoint, dump, network, small, torch_save, tree
from tests.test_importer import FIXTURES, folder_of, put, same


def changed(tensors) -> dict:
    return {name: value.detach() * 1.5 + 0.25 for name, value in tensors.items()}


def outside_tensors(path: Path, places) -> bytes:
    """The file with every tensor's numbers set to zero."""
    content = bytearray(path.read_bytes())
    for place in places.values():
        content[place.start : place.start + reach(place)] = bytes(reach(place))
    return bytes(content)


def opcodes(path: Path) -> list:
    """Every opcode, its place, and its argument unless it is a byte string."""
    found = pickletools.genops(path.read_bytes())
    return [(code.name, at, len(value) if isinstance(value, bytes) else value) for code, value, at in found]


@pytest.mark.parametrize("name", FIXTURES)
def test_a_drop_in_file_differs_from_the_original_in_nothing_but_numbers(tmp_path, name):
    original, out = folder_of(name) / f"{name}_nosrc.pkl", tmp_path / "out.pkl"
    before = read(original)
    wanted = changed(before.tensors)
    export_drop_in(tree(wanted), original, out, sha256=before.source_sha256)
    after = read(out)
    assert same(after.tensors, wanted)
    assert after.config == before.config
    assert opcodes(out) == opcodes(original)
    places = survey(original).tensors
    assert survey(out).tensors == places
    assert outside_tensors(out, places) == outside_tensors(original, places)


def test_a_drop_in_file_opens_with_python_s_own_pickle(tmp_path):
    """As the published tools open it: their function is called with the same description as before."""
    original = put(tmp_path, checkpoint())
    export_drop_in(tree(changed(small())), original, tmp_path / "out.pkl", sha256=read(original).source_sha256)
    packages = published._packages()
    packages["torch_utils.persistence"]._reconstruct_persistent_obj = lambda meta: meta
    with patch.dict(sys.modules, packages):
        opened = pickle.loads((tmp_path / "out.pkl").read_bytes())

    def const(name):
        return opened[name]["state"]["_modules"]["synthesis"]["state"]["_modules"]["b4"]["state"]["_parameters"][
            "const"
        ]

    assert torch.equal(const("G_ema"), changed(small())["synthesis.b4.const"])
    assert torch.equal(const("G"), small(1.01)["synthesis.b4.const"])


def test_views_into_one_storage_are_written_where_they_lie(tmp_path):
    wide = torch.arange(24.0).reshape(4, 6)
    state = small() | {"turned": wide[:2].T, "columns": wide[2:, ::2], "small": wide.half(), "none": wide[:0]}
    original, wanted = put(tmp_path, dump({"G_ema": state, "all": wide})), changed(state)
    wanted["small"] = wanted["small"].half()
    export_drop_in(tree(wanted), original, tmp_path / "out.pkl", sha256=read(original).source_sha256)
    assert same(read(tmp_path / "out.pkl").tensors, wanted)
    places = survey(original).tensors
    assert outside_tensors(tmp_path / "out.pkl", places) == outside_tensors(original, places)
    between = original.read_bytes().index(wide[2:3].numpy().tobytes()) + 4
    assert (tmp_path / "out.pkl").read_bytes()[between : between + 4] == wide[2, 1].numpy().tobytes()


def test_tied_weights_must_stay_equal(tmp_path):
    shared = torch.ones(4)
    original = put(tmp_path, dump({"G_ema": small() | {"a": shared, "b": shared}}))
    sha256 = read(original).source_sha256
    model = tree(small() | {"a": shared + 1, "b": shared + 1})
    export_drop_in(model, original, tmp_path / "out.pkl", sha256=sha256)
    model.a.add_(1)
    with pytest.raises(Mismatch, match="as one"):
        export_drop_in(model, original, tmp_path / "torn.pkl", sha256=sha256)
    assert not list(tmp_path.glob("*torn*"))


def test_a_drop_in_file_needs_the_unchanged_original_of_the_same_model(tmp_path):
    original = put(tmp_path, checkpoint())
    sha256, out = read(original).source_sha256, tmp_path / "out.pkl"
    wrong_shape = small() | {"mapping.w_avg": torch.ones(7)}
    for state in (wrong_shape, small() | {"more": torch.ones(1)}, {"mapping.w_avg": torch.ones(6)}):
        with pytest.raises(Mismatch, match=r"not of model\.pkl"):
            export_drop_in(tree(state), original, out, sha256=sha256)
    with pytest.raises(UserError, match="overwrite"):
        export_drop_in(tree(small()), original, original, sha256=sha256)
    with pytest.raises(UserError, match="baked"):
        export_drop_in(tree(small()), put(tmp_path, torch_save(small()), "a.pt"), out, sha256=sha256)
    original.write_bytes(original.read_bytes() + b"x")
    with pytest.raises(Mismatch, match="changed since"):
        export_drop_in(tree(small()), original, out, sha256=sha256)
    assert not out.exists()


def test_g_and_g_ema_that_are_one_object_change_together(tmp_path):
    one = network(tree(small()), SETTINGS)
    original = put(tmp_path, dump({"G": one, "G_ema": one}))
    export_drop_in(tree(changed(small())), original, tmp_path / "out.pkl", sha256=read(original).source_sha256)
    assert same(read(tmp_path / "out.pkl").tensors, changed(small()))
    assert len(opcodes(tmp_path / "out.pkl")) == len(opcodes(original))


def test_baked_weights_come_back_as_the_same_model(tmp_path):
    model, path = Tiny(seed=3), tmp_path / "baked.safetensors"
    export_baked(model, path, {"licence": "MIT", "forgotten": ["glasses"]})
    found = read(path)
    assert found.architecture == "tiny"
    assert found.config == model.config
    assert found.attributes["forgotten"] == ["glasses"]
    assert found.attributes["fingerprint"] == fingerprint(model)
    assert same(found.tensors, model.state_dict())
    words = json.loads(path.with_suffix(".json").read_text())
    assert words["architecture"] == "tiny"
    assert words["licence"] == "MIT"


def test_only_a_generator_that_can_be_built_again_is_baked(tmp_path):
    with pytest.raises(UserError, match="Linear cannot be exported"):
        export_baked(nn.Linear(1, 1), tmp_path / "a.safetensors", {})
    assert not list(tmp_path.iterdir())
