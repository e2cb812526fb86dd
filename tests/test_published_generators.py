"""StyleGAN2, StyleGAN3 and EG3D keep the protocol of every generator; small ones with random weights."""

import copy
import json

import pytest
import torch

from engine.core.errors import UserError
from engine.core.protocols import Generator
from engine.delta import editable, fingerprint
from engine.generators import architectures
from tests.test_eg3d import SMALL

COMMON = {"z_dim": 8, "c_dim": 0, "w_dim": 8, "img_resolution": 64, "img_channels": 3, "channel_max": 8}
CONFIGS = {
    "stylegan2": COMMON | {"channel_base": 512},
    "stylegan3": COMMON | {"channel_base": 512, "num_layers": 6},
    "eg3d": SMALL,
}
NOISY = ("stylegan2", "eg3d")


@pytest.fixture(params=CONFIGS)
def name(request):
    return request.param


@pytest.fixture
def model(name):
    torch.manual_seed(0)
    made = architectures[name](**CONFIGS[name])
    with torch.no_grad():
        for key, parameter in made.named_parameters():
            if key.endswith("noise_strength"):
                parameter.fill_(0.2)
        mapping = getattr(made, "backbone", made).mapping
        mapping.w_avg.normal_()
    return made


@pytest.fixture
def w(model):
    with torch.no_grad():
        return model.map(model.sample_z([1, 2, 3])) + 0.1 * torch.randn(3, model.num_ws, model.w_dim)


def close(first, second) -> bool:
    return torch.allclose(first, second, rtol=1e-4, atol=1e-4 * second.abs().max().item())


def test_it_keeps_the_protocol(model):
    assert isinstance(model, Generator)
    assert model.w_avg.shape == (model.num_ws, model.w_dim)
    assert model.sizes[-1] == model.size
    assert list(model.sizes) == sorted(set(model.sizes))


@torch.no_grad()
def test_its_config_rebuilds_it(name, model, w):
    again = architectures[name](**json.loads(json.dumps(model.config)))
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.synth(w), model.synth(w))


@torch.no_grad()
def test_full_truncation_is_the_mean_code(model):
    assert torch.allclose(model.map(model.sample_z([1]), psi=0.0), model.w_avg)


@torch.no_grad()
def test_every_offered_side_is_made_and_no_other(model, w):
    for size in model.sizes:
        assert model.synth(w, size=size).shape == (3, 3, size, size)
    with pytest.raises(UserError, match="size 7"):
        model.synth(w, size=7)


@torch.no_grad()
def test_features_do_not_depend_on_the_side_of_the_picture(model, w):
    features = model.features(w)
    assert features.ndim == 4
    for size in model.sizes:
        assert torch.equal(model.render(w, size=size)[0], features)


@torch.no_grad()
def test_a_code_gives_the_same_picture_in_any_batch(model, w):
    together = model.synth(w)
    for i in range(3):
        assert close(model.synth(w[i : i + 1]), together[i : i + 1])
    assert torch.equal(model.synth(w), together)


def test_gradients_reach_everything_editable_and_nothing_else(model, w):
    chosen = editable(model)
    model.synth(w).square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in chosen)
    rest = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    assert rest
    assert all(parameter.grad is None for parameter in rest)


def test_making_pictures_leaves_the_weights_and_the_codes_alone(model, w):
    before, codes = fingerprint(model), w.clone()
    model.train()
    for size in model.sizes:
        model.synth(w.requires_grad_(), size=size).sum().backward()
    assert fingerprint(model) == before
    assert torch.equal(w, codes)


@torch.no_grad()
def test_autocast_does_not_blur_phases_rays_and_styles(model, w):
    before, z = model.synth(w), model.sample_z([1])
    codes = model.map(z)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.synth(w), before)
        assert torch.equal(model.map(z), codes)


@torch.no_grad()
def test_all_layers_that_read_w_are_named_with_their_rows(model, w):
    """Moving w by d is adding A d to the bias of every layer that reads it."""
    d = torch.randn(model.num_ws, model.w_dim)
    moved = copy.deepcopy(model)
    for layer, row in moved.affines():
        layer.bias += layer.weight @ d[row] * (layer.weight_gain / layer.bias_gain)
    assert close(moved.synth(w), model.synth(w + d))
    assert not close(model.synth(w), model.synth(w + d))


@torch.no_grad()
@pytest.mark.parametrize("name", NOISY)
def test_noise_is_the_stored_one_unless_asked_otherwise(model, w):
    def made(noise, seed=0):
        return model.render(w, noise=noise, random=torch.Generator().manual_seed(seed))[1]

    assert torch.equal(made("const"), model.synth(w))
    assert torch.equal(made("random"), made("random"))
    pictures = [made("const"), made("none"), made("random"), made("random", 1)]
    assert not any(close(a, b) for i, a in enumerate(pictures) for b in pictures[:i])
    with pytest.raises(UserError, match="loud"):
        made("loud")


@torch.no_grad()
@pytest.mark.parametrize("name", ["stylegan2", "stylegan3"])
def test_a_condition_is_zero_unless_given(name):
    torch.manual_seed(0)
    model = architectures[name](**CONFIGS[name] | {"c_dim": 3})
    z = model.sample_z([1, 2])
    assert torch.equal(model.map(z), model.map(z, c=torch.zeros(2, 3)))
    assert not close(model.map(z), model.map(z, c=torch.eye(3)[:2]))
