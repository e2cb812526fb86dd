import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine import assets, losses, vision
from engine.core.errors import UserError

CHANNELS = ((3, 64, 11), (64, 192, 5), (192, 384, 3), (384, 256, 3), (256, 256, 3))


def trunk(scale=1.0):
    """An AlexNet trunk of random weights."""
    random, made = torch.Generator().manual_seed(0), {}
    for index, (inputs, outputs, kernel) in enumerate(CHANNELS):
        weight = torch.randn(outputs, inputs, kernel, kernel, generator=random) / math.sqrt(inputs * kernel**2)
        made |= {f"conv{index}.weight": scale * weight, f"conv{index}.bias": torch.zeros(outputs)}
    return made


@pytest.fixture(scope="module")
def percept():
    return losses.Perceptual(vision.lpips_network("alex", trunk()))


@pytest.fixture(scope="module")
def pair():
    random = torch.Generator().manual_seed(1)
    x = torch.rand(2, 3, 64, 64, generator=random) * 2 - 1
    return x, (x + 0.3 * torch.randn(x.shape, generator=random)).clamp(-1, 1)


def test_the_two_halves_give_what_the_lpips_package_gives(percept, pair):
    torch.testing.assert_close(percept(*pair), percept.network(*pair).flatten(), rtol=1e-5, atol=1e-7)


def test_an_image_has_no_distance_to_itself(percept, pair):
    assert percept(pair[0], pair[0]).tolist() == [0, 0]


def test_kept_features_of_the_frozen_side_give_the_same_loss_and_gradient(percept, pair):
    x, y = pair[0].clone().requires_grad_(), pair[1]
    (whole,) = torch.autograd.grad(percept(x, y).sum(), x)
    with torch.no_grad():
        kept = percept.features(y)
    (halved,) = torch.autograd.grad(percept.distance(percept.features(x), kept).sum(), x)
    assert torch.equal(whole, halved) and whole.abs().sum() > 0


def test_one_kept_target_serves_a_whole_batch(percept, pair):
    x, y = pair
    kept = percept.features(y[:1])
    torch.testing.assert_close(percept.distance(percept.features(x), kept), percept(x, y[:1].expand(2, -1, -1, -1)))


def test_dead_features_give_a_finite_gradient():
    dead = losses.Perceptual(vision.lpips_network("alex", trunk(scale=0.0)))
    x = torch.zeros(1, 3, 64, 64, requires_grad=True)
    dead(x, torch.ones(1, 3, 64, 64)).sum().backward()
    assert x.grad.isfinite().all()


def test_a_sixteen_pixel_image_is_enlarged_and_not_refused(percept):
    assert percept(torch.zeros(1, 3, 16, 16), torch.ones(1, 3, 16, 16)).shape == (1,)


def test_nothing_in_lpips_is_trainable_or_in_training(percept):
    assert not any(parameter.requires_grad for parameter in percept.parameters())
    assert not percept.network.training


def test_an_unknown_trunk_is_named():
    with pytest.raises(UserError, match="squeeze"):
        losses.lpips("squeeze")


# ---------------------------------------------------------------------------- on the real networks

needs_alex = pytest.mark.skipif(not assets.is_present("lpips-alex"), reason="run 'python app.py assets fetch'")
needs_vgg = pytest.mark.skipif(not assets.is_present("lpips-vgg"), reason="run 'python app.py assets fetch'")
needs_a = pytest.mark.skipif(not assets.is_present("recogniser-a"), reason="run 'python app.py assets fetch'")


def by_hand(net: str, x: torch.Tensor, y: torch.Tensor, heads: nn.ModuleList) -> torch.Tensor:
    """LPIPS written down from the paper and the layers' table: no code of the package."""
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    weights = assets.load(f"lpips-{net}")
    stride, padding = {"alex": ((4, 1, 1, 1, 1), (2, 2, 1, 1, 1)), "vgg": ((1,) * 13, (1,) * 13)}[net]
    pool_before = {"alex": (1, 2), "vgg": (2, 4, 7, 10)}[net]
    taps = {"alex": (0, 1, 2, 3, 4), "vgg": (1, 3, 6, 9, 12)}[net]
    maps = []
    for image in (x, y):
        h, found = (image - shift[:, None, None]) / scale[:, None, None], []
        for i in range(len(stride)):
            if i in pool_before:
                h = F.max_pool2d(h, 3 if net == "alex" else 2, 2)
            h = F.relu(F.conv2d(h, weights[f"conv{i}.weight"], weights[f"conv{i}.bias"], stride[i], padding[i]))
            if i in taps:
                found.append(h / h.norm(dim=1, keepdim=True).clamp(min=1e-10))
        maps.append(found)
    parts = []
    for k, (a, b) in enumerate(zip(*maps, strict=True)):
        weight = next(heads[k].parameters()).flatten()
        parts.append(((a - b) ** 2 * weight[:, None, None]).sum(1).mean((1, 2)))
    return sum(parts)


@pytest.mark.assets
@pytest.mark.parametrize("net", [pytest.param("alex", marks=needs_alex), pytest.param("vgg", marks=needs_vgg)])
def test_lpips_on_the_real_trunks_equals_lpips_by_hand(net, pair):
    percept = losses.lpips(net)
    expected = by_hand(net, *pair, percept.network.lins)
    torch.testing.assert_close(percept(*pair), expected, rtol=1e-4, atol=1e-6)
    assert (expected > 0.02).all()


@pytest.mark.assets
@needs_alex
def test_lpips_sees_blur_where_squared_error_sees_brightness():
    """The paper's point, on a made-up texture: at an equal or smaller squared error, blur looks further away."""
    random = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 3, 32, 32, generator=random) * 1.6 - 0.8
    image = F.interpolate(coarse, size=128, mode="nearest")
    blurred = F.avg_pool2d(image, 9, 1, 4)
    brighter = image + (blurred - image).square().mean().sqrt()
    percept = losses.lpips("alex")
    assert percept(image, blurred) > 3 * percept(image, brighter)


@pytest.mark.assets
@needs_alex
def test_lpips_is_loaded_once():
    assert losses.lpips("alex") is losses.lpips("alex")


@pytest.mark.assets
@needs_a
def test_identity_is_a_unit_vector_with_a_gradient_to_the_pixels_at_any_size():
    for size in (128, 256):
        x = (torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(size)) * 2 - 1).requires_grad_()
        vector = losses.identity(x)
        assert vector.shape == (1, 128) and vector.norm().item() == pytest.approx(1, abs=1e-5)
        (gradient,) = torch.autograd.grad(vector[0, 0], x)
        assert gradient.isfinite().all() and gradient.abs().sum() > 0
        assert losses.identity_similarity(x, x).item() == pytest.approx(1, abs=1e-5)
