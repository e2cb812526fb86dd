"""Our StyleGAN2 is the published one: same names, same pictures, same gradients."""

import pytest
import torch

from benchmarks.stylegan2_reference import synthesise
from engine.core.errors import UserError
from engine.generators import architectures, modulated, winograd
from engine.generators.modulated import styled_conv
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


@pytest.mark.parametrize("channels", [8, 256], ids=["by tiles", "direct"])
@pytest.mark.parametrize("clamp", [None, 1.5])
def test_every_way_to_convolve_gives_the_picture_and_gradients_of_the_formulas(monkeypatch, channels, clamp):
    """Small and large maps, tiles or not, are computed differently; the reference computes all of them alike."""
    monkeypatch.setattr(winograd, "CHANNELS", channels)
    torch.manual_seed(0)
    small = {"img_resolution": 64, "channel_base": 1024, "channel_max": 16, "conv_clamp": clamp}
    model = architectures["stylegan2"](**TINY | small).double()
    for name, parameter in model.named_parameters():
        if name.endswith(("noise_strength", "bias")):
            torch.nn.init.normal_(parameter)
    w, probe = (torch.randn(shape, dtype=torch.float64) for shape in ((3, model.num_ws, 64), (3, 3, 64, 64)))
    found = [gradients(maker, model, w, probe) for maker in (lambda model, w: model.synth(w), synthesise)]
    for name, ours in found[0].items():
        scale = found[1][name].abs().max().item()
        assert deviation(ours, found[1][name]) <= 1e-11 * scale, name


def gradients(maker, model, w, probe):
    model.zero_grad(set_to_none=True)
    w = w.clone().requires_grad_()
    image = maker(model, w)
    (image * probe).sum().backward()
    parameters = {name: p.grad for name, p in model.synthesis.named_parameters()}
    return {"image": image.detach(), "w": w.grad} | parameters


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("noises", [1, 3])
@pytest.mark.parametrize("tiles", [False, True])
def test_samples_taken_alone_have_the_gradients_of_a_batch(monkeypatch, up, noises, tiles):
    monkeypatch.setattr(winograd, "CHANNELS", 4 if tiles else 256)
    monkeypatch.setattr(winograd, "FLOATS", 1000)
    monkeypatch.setattr(modulated, "STRIP", 100)
    random = torch.Generator().manual_seed(0)
    side, fir = (16, torch.rand(4, 4, generator=random, dtype=torch.float64)) if up else (8, None)
    shapes = (3, 6, 8, 8), (5, 6, 3, 3), (3, 6), (noises, 1, side, side), (5,)
    inputs = [torch.randn(shape, generator=random, dtype=torch.float64, requires_grad=True) for shape in shapes]
    probe = torch.randn(3, 5, side, side, generator=random, dtype=torch.float64)
    found = []
    for large in (1, 1000):
        monkeypatch.setattr(modulated, "LARGE", large)
        y = styled_conv(*inputs, fir=fir, clamp=2.0)
        found.append((y.detach(), *torch.autograd.grad((y * probe).sum(), inputs)))
    assert found[0][0].abs().max() == 2.0
    for alone, together in zip(*found, strict=True):
        assert torch.allclose(alone, together, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("wants", [(True, False), (False, True)])
def test_tiles_convolve_and_have_the_gradients_of_a_convolution(wants):
    random = torch.Generator().manual_seed(0)
    shapes = (3, 8, 12, 20), (6, 8, 3, 3)
    x, weight = (torch.randn(shape, generator=random, dtype=torch.float64) for shape in shapes)
    x, weight = x.requires_grad_(wants[0]), weight.requires_grad_(wants[1])
    probe = torch.randn(3, 6, 12, 20, generator=random, dtype=torch.float64)
    ours, expected = winograd.conv3x3(x, weight), torch.nn.functional.conv2d(x, weight, padding=1)
    assert torch.allclose(ours, expected, atol=1e-12)
    inputs = [part for part in (x, weight) if part.requires_grad]
    grads = (torch.autograd.grad((y * probe).sum(), inputs)[0] for y in (ours, expected))
    assert torch.allclose(*grads, atol=1e-11)


def test_a_weight_has_the_gradients_of_its_conv_and_of_its_squares_together():
    weight = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    same, squares = modulated._Squares.apply(weight)
    assert torch.equal(same, weight) and torch.equal(squares, weight.square().sum((2, 3)))
    assert torch.autograd.gradcheck(modulated._Squares.apply, [weight])
