"""What every built-in base must keep, whatever its architecture. A new one is tested by being registered."""

import copy
import fnmatch
import json

import pytest
import torch

from engine import assets
from engine.core.errors import UserError
from engine.core.protocols import Generator
from engine.delta import editable, fingerprint
from engine.generators import architectures, bases


def base_parameters():
    for name, base in bases.items():
        missing = [need for need in base.needs if not assets.is_present(need)]
        marks = [pytest.mark.assets] if base.needs else []
        marks += [pytest.mark.skip(reason=f"not fetched: {', '.join(missing)}")] if missing else []
        yield pytest.param(name, marks=marks, id=name)


@pytest.fixture(scope="module", params=base_parameters())
def model(request):
    """Loaded once; the tests below leave it as it was."""
    return bases[request.param].load()


@pytest.fixture
def w(model):
    with torch.no_grad():
        return model.map(model.sample_z([3, 7]), psi=0.7)


def small(model, w):
    with torch.no_grad():
        return model.synth(w, size=model.sizes[0])


def test_it_keeps_the_protocol(model):
    assert isinstance(model, Generator)
    assert model.w_avg.shape == (model.num_ws, model.w_dim)
    assert list(model.sizes) == sorted(model.sizes)
    assert model.sizes[-1] == model.size


def test_a_seed_gives_its_z_in_any_batch(model):
    assert torch.equal(model.sample_z([5, 3])[1], model.sample_z([3])[0])
    assert model.sample_z([]).shape == (0, model.z_dim)


def test_mapping_gives_one_row_per_slot_and_truncates_towards_the_average(model):
    z = model.sample_z([1, 2])
    with torch.no_grad():
        assert model.map(z).shape == (2, model.num_ws, model.w_dim)
        assert torch.allclose(model.map(z, psi=0.0), model.w_avg.expand(2, -1, -1), atol=1e-6)
        halfway = (model.map(z) + model.w_avg) / 2
        assert torch.allclose(model.map(z, psi=0.5), halfway, atol=1e-5)


def test_without_a_mapping_w_is_z(model):
    if model.latent == "z":
        z = model.sample_z([4])
        assert torch.equal(model.map(z)[:, 0], z)


def test_the_picture_has_the_size_asked_for(model, w):
    assert small(model, w).shape == (2, 3, model.sizes[0], model.sizes[0])


def test_a_size_it_cannot_make_is_refused_with_those_it_can(model, w):
    with pytest.raises(UserError, match=str(model.size)):
        model.synth(w, size=model.size + 1)


def test_the_same_code_gives_the_same_bits(model, w):
    assert torch.equal(small(model, w), small(model, w))


def test_a_picture_does_not_depend_on_its_batch(model, w):
    """Up to the order of additions: a matrix product sums differently for one row and for several, and the FFHQ
    network amplifies the last bit of a style to 3e-5 in a few pixels. The number of threads changes nothing."""
    together, alone = small(model, w), torch.cat([small(model, row[None]) for row in w])
    assert (together - alone).abs().max() < 1e-4


def test_one_pass_gives_the_features_and_the_picture(model, w):
    with torch.no_grad():
        features, image = model.render(w, size=model.sizes[0])
        assert torch.equal(features, model.features(w))
        assert torch.equal(image, small(model, w))
    assert features.ndim == 4
    assert len(features) == 2


def test_pictures_of_two_seeds_differ(model, w):
    first, second = small(model, w)
    assert (first - second).abs().mean() > 0.01


def test_every_editable_glob_matches_a_parameter(model):
    names = [name for name, _ in model.named_parameters()]
    for glob in model.editable:
        assert fnmatch.filter(names, glob), glob


def test_gradients_reach_every_editable_parameter_at_some_size(model, w):
    student = copy.deepcopy(model)
    chosen = editable(student)
    student.synth(w[:1], size=student.sizes[min(1, len(student.sizes) - 1)]).square().mean().backward()
    names = {id(parameter): name for name, parameter in student.named_parameters()}
    dry = [names[id(parameter)] for parameter in chosen if parameter.grad is None]
    assert not dry
    assert all(parameter.grad is None for parameter in student.parameters() if not parameter.requires_grad)


def test_gradients_reach_the_code(model, w):
    w = w[:1].clone().requires_grad_()
    model.synth(w, size=model.sizes[0]).square().mean().backward()
    assert w.grad.abs().sum() > 0
    model.zero_grad()


def test_a_copy_is_independent(model, w):
    before = fingerprint(model)
    student = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in editable(student):
            parameter.add_(0.01)
    assert fingerprint(model) == before
    assert not torch.equal(small(student, w), small(model, w))


def test_its_config_rebuilds_it(model, w):
    name = next(name for name, cls in architectures.items() if type(model) is cls)
    config = json.loads(json.dumps(model.config))  # as a card keeps it
    again = architectures[name](**config).eval()
    again.load_state_dict(model.state_dict())
    assert torch.equal(small(again, w), small(model, w))
    assert again.config == model.config


def test_it_moves_as_a_whole(model):
    moved = copy.deepcopy(model).to("meta")
    assert all(tensor.is_meta for tensor in [*moved.parameters(), *moved.buffers()])
    assert moved.sample_z([1]).is_meta
    image = moved.synth(moved.map(moved.sample_z([1])), size=moved.sizes[0])
    assert image.is_meta, "no tensor stayed behind"
