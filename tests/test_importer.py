"""Foreign generators are read bit for bit, recognised by their names, and refused with words that help."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from engine import importer
from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.delta import Card, Delta
from engine.importer import read
from engine.pickles import UnsafeFile
from engine.recognise import config_of_network, config_of_weights
from tests.published import SETTINGS, checkpoint, dump, network, small, torch_save, tree

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).resolve().parents[2] / "shared/fixtures"
FIXTURES = ["sg2_tiny", "sg2_tiny_cond", "sg3t_tiny", "sg3r_tiny", "eg3d_tiny"]
KINDS = {"sg2": "stylegan2", "sg3": "stylegan3", "eg3": "eg3d"}


def folder_of(name: str) -> Path:
    folder = next((place for place in (DATA, SHARED) if (place / f"{name}_nosrc.pkl").exists()), None)
    if folder is None:
        pytest.skip(f"{name}_nosrc.pkl is not in tests/data nor in the fixtures beside the project")
    return folder


def put(tmp_path: Path, content: bytes, name: str = "model.pkl") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def same(found, expected) -> bool:
    return found.keys() == expected.keys() and all(torch.equal(found[key], expected[key].detach()) for key in found)


@pytest.mark.parametrize("name", FIXTURES)
def test_every_tensor_of_a_published_checkpoint_is_bit_equal(name):
    folder = folder_of(name)
    found, state = read(folder / f"{name}_nosrc.pkl"), np.load(folder / f"{name}_state.npz")
    assert found.architecture == KINDS[name[:3]]
    assert found.kind == "pickle"
    assert found.tensors.keys() == set(state.files)
    for key in state.files:
        assert found.tensors[key].shape == state[key].shape
        assert found.tensors[key].numpy().tobytes() == state[key].tobytes(), key


def test_the_moving_average_is_taken_and_not_the_raw_generator(tmp_path):
    found = read(put(tmp_path, checkpoint()))
    assert same(found.tensors, small())
    assert not same(found.tensors, small(1.01))
    assert found.config == SETTINGS | {"num_fp16_res": 4, "conv_clamp": 256}
    assert len(found.source_sha256) == 64
    assert found.code["Generator"]


def test_a_file_with_nothing_but_g_ema_is_read(tmp_path):
    assert same(read(put(tmp_path, dump({"G_ema": network(tree(small()), SETTINGS)}))).tensors, small())


def test_attributes_are_trusted_over_the_arguments_of_eg3d():
    made = {"rendering_kwargs": {"box_warp": 1}, "z_dim": 5}
    changed = {"rendering_kwargs": {"box_warp": 2}, "neural_rendering_resolution": 128, "z_dim": 6}
    expected = {"rendering_kwargs": {"box_warp": 2}, "neural_rendering_resolution": 128, "z_dim": 5}
    assert config_of_network("eg3d", (), made, changed) == expected


def test_stylegan2_ada_nests_its_settings_and_has_its_own_defaults(tmp_path):
    nested = {"synthesis_kwargs": {"channel_base": 32, "conv_clamp": 256}}
    file = dump({"G_ema": network(tree(small()), nested, args=(5, 0, 6, 8, 3))}, protocol=3)
    assert read(put(tmp_path, file)).config == SETTINGS | {"conv_clamp": 256, "num_fp16_res": 0}


def test_buffers_that_a_state_dict_leaves_out_are_left_out(tmp_path):
    module = tree(small())
    module.register_buffer("scratch", torch.ones(3), persistent=False)
    assert "scratch" not in read(put(tmp_path, dump({"G_ema": network(module, SETTINGS)}))).tensors


def test_attributes_that_are_not_plain_are_left_out(tmp_path):
    odd = network(tree(small()), SETTINGS, num_ws=4, kind=torch.float32, layer=nn.Softplus(), last=torch.ones(2))
    found = read(put(tmp_path, dump({"G_ema": odd})))
    assert found.attributes == {"training": True, "num_ws": 4}


def test_views_and_shared_storages_come_out_as_they_were(tmp_path):
    wide = torch.arange(24.0).reshape(4, 6)
    state = small() | {"turned": wide.T, "part": wide[1:3, 2:4], "whole": wide, "half": wide.half(), "none": wide[:0]}
    state |= {"brain": wide.bfloat16(), "count": torch.tensor(7), "flags": wide > 3}
    for content in (torch_save(state), torch_save(state, archive=False), dump({"G_ema": state})):
        assert same(read(put(tmp_path, content)).tensors, state)


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("wrap", [None, "g_ema", "state_dict"])
def test_state_dicts_of_torch_are_recognised_by_their_names(tmp_path, archive, wrap):
    state = tree(small()).state_dict()
    found = read(put(tmp_path, torch_save({wrap: state} if wrap else state, archive=archive), "weights.pt"))
    assert found.kind == "torch"
    assert same(found.tensors, small())
    assert found.config["img_resolution"] == 8
    assert found.config["mapping_kwargs"] == {"num_layers": 1}


@pytest.mark.parametrize("name", [name for name in FIXTURES if not name.startswith("eg3d")])
def test_settings_follow_from_shapes_where_nothing_else_is_known(name):
    found = read(folder_of(name) / f"{name}_nosrc.pkl")
    guessed = config_of_weights(found.architecture, {key: value.shape for key, value in found.tensors.items()})
    told = {"num_layers": 14, "conv_kernel": 3, "use_radial_filters": False} | found.config
    told.setdefault("mapping_kwargs", {"num_layers": 8})
    for key in guessed.keys() - {"num_fp16_res", "conv_clamp"}:
        assert guessed[key] == told[key], key


def test_bare_weights_take_their_settings_from_the_json_beside_them(tmp_path):
    save_file({key: value.detach() for key, value in small().items()}, tmp_path / "a.safetensors")
    assert read(tmp_path / "a.safetensors").config["z_dim"] == 5
    (tmp_path / "a.json").write_text(json.dumps({"architecture": "stylegan2", "config": {"z_dim": 7}}))
    assert read(tmp_path / "a.safetensors").config == {"z_dim": 7}
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DamagedFile, match=r"a\.safetensors has a a\.json"):
        read(tmp_path / "a.safetensors")


def test_bare_eg3d_weights_ask_for_the_settings_that_shapes_cannot_tell(tmp_path):
    path = put(tmp_path, torch_save({"backbone.synthesis.b4.const": torch.ones(1)}))
    with pytest.raises(UserError, match="JSON file"):
        read(path)


def test_an_erasure_is_not_taken_for_a_generator(tmp_path):
    Delta(Card("b", "tiny", "guide", {}, "x"), {"a": torch.ones(1)}).save(tmp_path / "d.safetensors")
    with pytest.raises(Mismatch, match="erasure"):
        read(tmp_path / "d.safetensors")


@pytest.mark.parametrize("content", [b"", b"<!doctype html><title>404</title>", b"cos\nsystem\n(S'id'\ntR.", b"\x80"])
def test_what_is_no_model_is_refused_by_its_name(tmp_path, content):
    with pytest.raises(UserError, match=r"^model\.pkl "):
        read(put(tmp_path, content))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "absent.pkl", tmp_path):
        with pytest.raises(UserError, match="not there"):
            read(path)


def test_a_damaged_safetensors_file_is_refused(tmp_path):
    with pytest.raises(DamagedFile, match="safetensors"):
        read(put(tmp_path, b"\xff\0\0\0\0\0\0\0{}", "a.safetensors"))


def test_weights_of_another_architecture_are_named(tmp_path):
    with pytest.raises(UserError, match=r"conv9\.weight.*StyleGAN2"):
        read(put(tmp_path, torch_save({"conv9.weight": torch.ones(1)})))


def test_a_file_that_would_run_code_is_refused_through_the_other_process(tmp_path):
    system = b"\x80\x04cos\nsystem\nX\x0e\x00\x00\x00touch ran_here\x85R."
    with pytest.raises(UnsafeFile, match=r"model\.pkl asks Python to run os\.system.*not opened"):
        read(put(tmp_path, system))
    assert not list(tmp_path.rglob("ran_here"))
    assert not list(importer.ROOT.glob("ran_here"))


def test_the_other_process_has_little_memory_and_may_not_write(tmp_path):
    probe = (
        "import os, sys; from engine.foreign import _limit_this_process as limit; limit(0)\n"
        "try: memory = bytearray(2 << 30)\n"
        "except MemoryError: print('no memory', flush=True)\n"
        "os.write(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY), b'x')\n"
    )
    command = [importer.sys.executable, "-c", probe, str(tmp_path / "written")]
    done = subprocess.run(command, cwd=importer.ROOT, capture_output=True, text=True, check=False)
    assert "no memory" in done.stdout
    assert done.returncode != 0
    assert (tmp_path / "written").read_bytes() == b""


ANSWERS = [
    b"",
    b"[]",
    b"{}",
    b"[" * 100_000,
    b'{"tensors": {"a": ["float32", 0, [4], [1]]}}',
    json.dumps({"tensors": {"a": ["float32", 9999, [4], [1]]}, "args": [], "kwargs": {}, "attributes": {}, "code": {}}),
    json.dumps({"tensors": {"a": ["float32", 0, [9], [0]]}, "args": [], "kwargs": {}, "attributes": {}, "code": {}}),
    json.dumps({"tensors": {"a": ["object", 0, [1], [1]]}, "args": [], "kwargs": {}, "attributes": {}, "code": {}}),
    json.dumps({"tensors": {"a": ["float32", -4, [1], [1]]}, "args": [], "kwargs": {}, "attributes": {}, "code": {}}),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_an_answer_of_the_other_process_is_not_believed(tmp_path, monkeypatch, answer):
    said = answer if isinstance(answer, bytes) else answer.encode()
    monkeypatch.setattr(importer.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=said))
    with pytest.raises(DamagedFile):
        read(put(tmp_path, b"\x80\x04" + b"x" * 14))


def test_a_reader_that_hangs_is_given_up(tmp_path, monkeypatch):
    def hang(command, **_):
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(importer.subprocess, "run", hang)
    with pytest.raises(DamagedFile, match="could not be read"):
        read(put(tmp_path, b"\x80\x04N."))
