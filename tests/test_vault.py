"""Bits, seals and refusals: what a vault file holds, and that a wrong one changes nothing."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.masks import vault
from engine.masks.packing import pack, pack_numbers, unpack, unpack_numbers
from engine.masks.randomness import keyed
from engine.masks.state import State, same_bytes, sha256, unflatten
from tests.tiny_tasks import METHODS, begin, learn, tasks


@given(st.lists(st.booleans(), max_size=70))
def test_packing_bits_is_exact(bits):
    mask = torch.tensor(bits, dtype=torch.bool)
    packed = pack(mask)
    assert len(packed) == -(-len(bits) // 8)
    assert torch.equal(unpack(packed, mask.shape), mask)


@given(st.integers(1, 12).flatmap(lambda b: st.tuples(st.just(b), st.lists(st.integers(0, 2**b - 1), max_size=40))))
def test_packing_numbers_is_exact(case):
    bits, numbers = case
    packed = pack_numbers(torch.tensor(numbers, dtype=torch.long), bits)
    assert len(packed) == -(-bits * len(numbers) // 8)
    assert unpack_numbers(packed, bits, len(numbers)).tolist() == numbers


def test_keyed_numbers_depend_on_each_part_of_the_key_and_on_nothing_else():
    def draw(*key):
        return torch.rand(4, generator=keyed(*key))

    assert torch.equal(draw(0, 1, "a"), draw(0, 1, "a"))
    others = [draw(1, 1, "a"), draw(0, 2, "a"), draw(0, 1, "b")]
    assert all(not torch.equal(draw(0, 1, "a"), other) for other in others)


def test_the_hash_tells_names_shapes_types_and_signed_zeros_apart():
    zero = torch.zeros(4)
    different = [{"b": zero}, {"a": zero.reshape(2, 2)}, {"a": zero.int()}, {"a": -zero}]
    assert len({sha256(tensors) for tensors in (*different, {"a": zero})}) == 5
    assert sha256({"a": zero, "b": zero}) == sha256({"b": zero, "a": zero})
    assert not same_bytes(zero, -zero)


def test_a_flattened_state_comes_back_whole():
    state = State({"w": torch.ones(2)}, {3: {"mask.a.0": torch.ones(1)}}, {3: {"index.0": torch.zeros(1)}})
    assert sha256(unflatten(state.flat()).flat()) == sha256(state.flat())
    assert unflatten(state.flat()).tasks.keys() == {3}


@pytest.fixture
def kept(tmp_path):
    """A network with two tasks live and one in a file."""
    net = begin("packnet")
    learn(net, 0, 1, 2)
    return net, net.forget(2, tmp_path, "exclusive").vault


def refused(net, path, kind, sentence):
    before, infos = net.state_hash(), dict(net.infos)
    with pytest.raises(kind, match=sentence):
        net.restore(path)
    assert net.state_hash() == before
    assert net.infos == infos


def test_the_card_says_what_the_file_is_and_names_no_data(kept):
    net, path = kept
    card, deposit = vault.read(path)
    assert (card.method, card.task, card.classes) == ("packnet", 2, tasks()[2].classes)
    assert card.backbone == net.backbone
    assert card.built_on == (0, 1)
    assert card.library["torch"] == torch.__version__
    assert set(card.tensors) == set(deposit)
    assert card.bits["weights"] == 8 * sum(t.nbytes for name, t in deposit.items() if name.startswith("weights"))


def test_a_file_cut_off_anywhere_is_refused(kept, tmp_path):
    net, path = kept
    whole = path.read_bytes()
    for length in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        cut = tmp_path / "cut.safetensors"
        cut.write_bytes(whole[:length])
        refused(net, cut, DamagedFile, "not a vault file, or was cut off")


@pytest.mark.parametrize("place", [0.3, 0.6, 0.999])
def test_a_file_with_one_wrong_bit_is_refused(kept, tmp_path, place):
    net, path = kept
    wrong = bytearray(path.read_bytes())
    wrong[int(place * len(wrong))] ^= 4
    (tmp_path / "wrong.safetensors").write_bytes(wrong)
    refused(net, tmp_path / "wrong.safetensors", DamagedFile, "damaged|cut off|format")


def test_a_changed_card_breaks_the_seal(kept, tmp_path):
    net, path = kept
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    metadata["card"] = metadata["card"].replace('"task": 2', '"task": 3')
    save_file(load_file(path), tmp_path / "forged.safetensors", metadata)
    refused(net, tmp_path / "forged.safetensors", DamagedFile, "do not match its seal")


def test_a_well_sealed_file_with_wrong_contents_is_refused(kept, tmp_path):
    net, path = kept
    card, deposit = vault.read(path)
    made = tmp_path / "made.safetensors"
    for missing in deposit:
        vault.write(made, card, {name: tensor for name, tensor in deposit.items() if name != missing})
        refused(net, made, UserError, "made.safetensors")
    for text, sentence in (("[1]", "another format"), ('{"format": 1}', "lacks what a vault file says")):
        save_file(deposit, made, {"card": text, "sha256": vault._seal(text, deposit)})
        refused(net, made, DamagedFile, sentence)
    vault.write(made, replace(card, classes=()), deposit)
    refused(net, made, DamagedFile, "names no class")


def test_a_file_of_another_kind_is_refused(kept, tmp_path):
    net, _ = kept
    save_file({"a": torch.ones(2)}, tmp_path / "other.safetensors")
    refused(net, tmp_path / "other.safetensors", DamagedFile, "not a vault file")
    refused(net, tmp_path / "absent.safetensors", DamagedFile, "not a vault file")


@pytest.mark.parametrize("name", METHODS)
def test_a_file_of_another_network_is_refused(name, tmp_path):
    net, stranger = begin(name), begin(name, seed=1)
    learn(net, 0)
    learn(stranger, 0)
    stranger.forget(0, tmp_path)
    refused(stranger, net.forget(0, tmp_path).vault, Mismatch, "belongs to another network")


def test_a_file_of_another_method_is_refused(kept, tmp_path):
    _, path = kept
    net = begin("supsup")
    learn(net, 0)
    refused(net, path, Mismatch, "was made by packnet; this network is supsup")


def test_the_wrong_task_and_a_live_task_are_refused(kept):
    net, path = kept
    with pytest.raises(Mismatch, match="holds task 2, not task 1"):
        net.restore(path, task=1)
    net.restore(path, task=2)
    refused(net, path, UserError, "task 2 is live; there is nothing to restore")


def test_a_full_disk_leaves_the_task_where_it_is(kept, tmp_path, monkeypatch):
    net, _ = kept
    before = net.state_hash()

    def full(*_):
        raise UserError("the disk is full")

    monkeypatch.setattr(vault, "save_tensors", full)
    with pytest.raises(UserError, match="disk is full"):
        net.forget(1, tmp_path)
    assert net.state_hash() == before
    assert set(net.infos) == {0, 1}
