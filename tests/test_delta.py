import copy

import pytest
import torch

from engine.core.errors import DamagedFile, Mismatch
from engine.delta import Card, Delta, compose, editable, fingerprint
from engine.generators.tiny import Tiny


@pytest.fixture
def pair():
    base = Tiny()
    student = copy.deepcopy(base)
    with torch.no_grad():
        for parameter in editable(student):
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return base, student, Delta.between(base, student, Card(knobs={}, request="a test"))


def test_composing_gives_the_student_and_leaves_the_base_alone(pair):
    base, student, delta = pair
    before = fingerprint(base)
    made = compose(base, [delta])
    for name, value in made.state_dict().items():
        torch.testing.assert_close(value, student.state_dict()[name], atol=1e-6, rtol=0)
    assert fingerprint(base) == before != fingerprint(made)


def test_leaving_the_delta_out_gives_the_base_bit_for_bit(pair):
    base, _, delta = pair
    assert fingerprint(compose(base, [delta])) != fingerprint(base)
    assert fingerprint(compose(base, [])) == fingerprint(base)


def test_a_delta_holds_only_what_changed(pair):
    base, _, delta = pair
    assert delta.tensors and all(name.startswith("synthesis.") for name in delta.tensors)
    assert Delta.between(base, copy.deepcopy(base), delta.card).tensors == {}


def test_a_saved_delta_loads_equal(pair, tmp_path):
    delta = pair[2]
    delta.save(tmp_path / "d.safetensors")
    loaded = Delta.load(tmp_path / "d.safetensors")
    assert loaded.fingerprint == delta.fingerprint and loaded.card.request == "a test"


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99])
def test_a_cut_off_delta_is_refused(pair, tmp_path, share):
    path = tmp_path / "d.safetensors"
    pair[2].save(path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DamagedFile, match="cut off"):
        Delta.load(path)


def test_a_delta_of_another_network_is_refused(pair):
    with pytest.raises(Mismatch, match="a test"):
        compose(Tiny(width=8), [pair[2]])


def test_set_and_mask_deltas_copy_and_multiply(pair):
    base = pair[0]
    name = "synthesis.rgb.weight"
    weight = base.state_dict()[name]
    mask = (torch.arange(weight.numel()).reshape(weight.shape) % 2).to(torch.uint8)
    masked = compose(base, [Delta(Card({}, "m", op="mask"), {name: mask})]).state_dict()[name]
    assert torch.equal(masked, weight * mask)
    written = compose(base, [Delta(Card({}, "s", op="set"), {name: torch.ones_like(weight)})]).state_dict()[name]
    assert torch.equal(written, torch.ones_like(weight))


def test_the_fingerprint_sees_a_single_bit_and_a_renamed_tensor(pair):
    base = pair[0]
    twin = copy.deepcopy(base)
    assert fingerprint(twin) == fingerprint(base)
    with torch.no_grad():
        twin.synthesis["rgb"].bias[0] = torch.nextafter(twin.synthesis["rgb"].bias[0], torch.tensor(9.0))
    assert fingerprint(twin) != fingerprint(base)
