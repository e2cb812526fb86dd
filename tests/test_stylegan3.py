"""Our StyleGAN3 is the published one, configurations T and R: same names, same layers, same pictures."""

import pytest
import torch

from engine.core.errors import UserError
from engine.generators import architectures
from engine.generators.filters import downsample, upsample
from tests.parity import CODE, IMAGE, arrays, deviation, keys, shapes

TINY = {"z_dim": 64, "c_dim": 0, "w_dim": 64, "img_resolution": 32, "img_channels": 3, "channel_max": 64}
CONFIGS = {
    "sg3t_tiny": TINY | {"channel_base": 1024, "magnitude_ema_beta": 0.99889},
    "sg3r_tiny": TINY | {"channel_base": 2048, "conv_kernel": 1, "use_radial_filters": True},
}


@pytest.fixture(params=CONFIGS)
def published(request):
    """A published network and what it gave."""
    model = architectures["stylegan3"](**CONFIGS[request.param])
    model.load_state_dict(arrays(f"{request.param}_state"))
    return model, arrays(request.param)


@pytest.mark.parametrize("name", CONFIGS)
def test_names_and_shapes_are_the_published_ones(name):
    assert shapes(architectures["stylegan3"](**CONFIGS[name])) == keys(name)


@pytest.mark.parametrize("name", CONFIGS)
def test_designed_filters_are_the_published_ones(name):
    made, told = architectures["stylegan3"](**CONFIGS[name]).state_dict(), arrays(f"{name}_state")
    filters = [key for key in told if key.endswith("_filter")]
    assert len(filters) == 28
    for key in filters:
        assert deviation(made[key], told[key]) <= 1e-6, key


@torch.no_grad()
def test_codes_and_pictures_are_the_published_ones(published):
    model, told = published
    assert deviation(model.map(told["z"]), told["w"]) <= CODE
    assert deviation(model.map(told["z"], psi=0.7), told["w_trunc07"]) <= CODE
    assert deviation(model.synth(told["w"]), told["image"]) <= IMAGE


@torch.no_grad()
def test_every_layer_gives_what_the_published_one_gives(published):
    model, told = published
    names = ["input", *(f"layer.{name}" for name in model.synthesis.names)]
    seen = 0
    for name, x in zip(names, model.synthesis(told["w"][:1]), strict=True):
        if name in told:
            assert deviation(x[:, : told[name].shape[1]], told[name]) <= IMAGE, name
            seen += 1
    assert seen >= 4


@torch.no_grad()
def test_the_transform_moves_the_picture_as_published(published):
    model, told = published
    model.synthesis.input.transform.copy_(told["transform"])
    assert deviation(model.synth(told["w"]), told["image_transform"]) <= IMAGE


def test_training_leaves_the_magnitudes_alone(published):
    model, told = published
    before = {key: value.clone() for key, value in model.state_dict().items() if key.endswith("magnitude_ema")}
    model.train()
    model.synth(told["w"][:1]).sum().backward()
    assert len(before) == 15
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in before.items())


@pytest.mark.parametrize("radial", [False, True])
def test_gradients_are_those_of_finite_differences(radial):
    """The published gradients are not recorded. The step is small because leaky ReLUs have kinks."""
    torch.manual_seed(0)
    small = {"z_dim": 8, "w_dim": 8, "channel_max": 6, "num_layers": 4, "margin_size": 2, "img_resolution": 16}
    model = architectures["stylegan3"](**(TINY | small), use_radial_filters=radial).double()
    w, probe = torch.randn(2, 6, 8, dtype=torch.float64), torch.randn(2, 3, 16, 16, dtype=torch.float64)
    (model.synth(w) * probe).sum().backward()
    for layer in model.synthesis.layers():
        start, direction = layer.weight.detach().clone(), torch.randn_like(layer.weight)
        ends = []
        with torch.no_grad():
            for step in (1e-7, -1e-7):
                layer.weight.copy_(start + step * direction)
                ends.append((model.synth(w) * probe).sum())
            layer.weight.copy_(start)
        found, expected = (layer.weight.grad * direction).sum(), (ends[0] - ends[1]) / 2e-7
        assert torch.isclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize(("up", "low", "high"), [(2, 3, 2), (4, -5, -3), (2, 15, 14), (1, 2, -1)])
def test_upsampling_is_zeros_between_the_samples_and_a_convolution(up, low, high):
    random = torch.Generator().manual_seed(0)
    x, taps = torch.randn(2, 3, 9, 9, generator=random), torch.randn(6 * up, generator=random)
    spread = x.new_zeros(2, 3, 9 * up, 9 * up)
    spread[:, :, ::up, ::up] = x
    spread = torch.nn.functional.pad(spread, (low, high, low, high))
    square = torch.outer(taps, taps).flip(0, 1)[None, None] * up**2
    expected = torch.nn.functional.conv2d(spread.flatten(0, 1)[:, None], square).view(
        2, 3, *[9 * up + low + high - 6 * up + 1] * 2
    )
    assert torch.allclose(upsample(x, taps, up, low, high), expected, atol=1e-4)


def test_a_radial_filter_that_is_an_outer_product_is_the_separable_one():
    random = torch.Generator().manual_seed(0)
    x, taps = torch.randn(2, 3, 30, 30, generator=random), torch.randn(12, generator=random)
    assert torch.allclose(downsample(x, taps, 2), downsample(x, torch.outer(taps, taps), 2), atol=1e-4)


def test_unknown_settings_are_refused():
    with pytest.raises(UserError, match="colour"):
        architectures["stylegan3"](**TINY, colour=1)
