"""Our StyleGAN2 is the published one: same names, same pictures, same gradients."""

import pytest
import torch

from engine.core.errors import UserError
from engine.generators import architectures
from engine.generators.stylegan2 import Noise
from tests.parity import CODE, IMAGE, arrays, deviation, is_close_gradient, keys, shapes

TINY = {"z_dim": 64, "c_dim": 0, "w_dim": 64, "img_resolution": 32, "img_channels": 3}
TINY |= {"channel_base": 1024, "channel_max": 64}
CONFIGS = {
    "sg2_tiny": TINY | {"num_fp16_res": 2, "conv_clamp": 256},
    "sg2_tiny_cond": TINY
    | {"c_dim": 3, "mapping_kwargs": {"num_layers": 2}, "conv_clamp": None, "fused_modconv_default": "inference_only"},
}


@pytest.fixture(params=CONFIGS)
def published(request):
    """A published network and what it gave."""
    model = architectures["stylegan2"](**CONFIGS[request.param])
    model.load_state_dict(arrays(f"{request.param}_state"))
    return model, arrays(request.param)


def test_names_and_shapes_are_the_published_ones():
    assert shapes(architectures["stylegan2"](**CONFIGS["sg2_tiny"])) == keys("sg2")


@torch.no_grad()
def test_codes_are_the_published_ones(published):
    model, told = published
    c = told.get("c")
    assert deviation(model.map(told["z"], c=c), told["w"]) <= CODE
    assert deviation(model.map(told["z"], c=c, psi=0.7), told["w_trunc07"]) <= CODE
    assert deviation(model.map(told["z"], c=c, psi=0.5, cutoff=3), told["w_trunc05_cut3"]) <= CODE


@torch.no_grad()
def test_pictures_are_the_published_ones(published):
    model, told = published
    assert deviation(model.synth(told["w"]), told["image"]) <= IMAGE
    assert deviation(model.render(told["w"], noise="none")[1], told["image_noise_none"]) <= IMAGE
    assert deviation(model.synth(told["wplus"]), told["image_wplus"]) <= IMAGE


@torch.no_grad()
def test_every_block_gives_the_published_map_and_picture(published):
    model, told = published
    seen = 0
    for x, image in model.synthesis(told["w"][:2], Noise()):
        side = x.shape[2]
        assert deviation(image, told[f"b{side}.img"]) <= IMAGE
        if f"b{side}.x" in told:
            assert deviation(x, told[f"b{side}.x"]) <= IMAGE
            seen += 1
    assert seen >= 2


@torch.no_grad()
def test_previews_are_the_pictures_of_the_inner_blocks(published):
    model, told = published
    assert model.sizes == (8, 16, 32)
    for size in model.sizes:
        assert deviation(model.synth(told["w"][:2], size=size), told[f"b{size}.img"]) <= IMAGE


def test_gradients_are_the_published_ones(published):
    model, told = published
    w = told["w"].clone().requires_grad_()
    loss = (model.synth(w) * told["grad_probe"]).mean()
    loss.backward()
    assert deviation(loss, told["grad_loss"]) <= CODE
    assert is_close_gradient(w.grad, told["grad.ws"])
    parameters = dict(model.named_parameters())
    names = [name.removeprefix("grad.") for name in told if name.startswith("grad.synthesis")]
    assert len(names) == 6
    for name in names:
        assert is_close_gradient(parameters[name].grad, told[f"grad.{name}"]), name


def test_the_nested_settings_of_stylegan2_ada_are_the_flat_ones():
    flat = {key: value for key, value in CONFIGS["sg2_tiny"].items() if key in TINY and not key.startswith("channel")}
    nested = {"channel_base": 1024, "channel_max": 64, "conv_clamp": 256}
    model = architectures["stylegan2"](**flat, synthesis_kwargs=nested)
    assert shapes(model) == keys("sg2")
    assert shapes(architectures["stylegan2"](**model.config)) == keys("sg2")


@pytest.mark.parametrize("wrong", [{"architecture": "resnet"}, {"colour": 1}, {"use_noise": False}])
def test_settings_that_would_give_another_network_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        architectures["stylegan2"](**TINY, **wrong)


def test_a_clamp_holds_every_map_within_its_bounds():
    torch.manual_seed(0)
    model = architectures["stylegan2"](**(TINY | {"conv_clamp": 0.5}))
    for x, _ in model.synthesis(torch.randn(1, 8, 64), Noise()):
        assert x.abs().max() == 0.5
