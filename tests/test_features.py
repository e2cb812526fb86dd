from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from engine import assets, features
from engine.core.errors import UserError
from engine.padding import pad_same


def normal(n: int, d: int, seed: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_the_frechet_distance_is_the_textbook_one():
    from scipy.linalg import sqrtm

    a, b = normal(300, 12, 0) @ normal(12, 12, 1), normal(200, 12, 2) + 0.3
    cov_a, cov_b = np.cov(a.numpy().T), np.cov(b.numpy().T)
    means = (a.mean(0) - b.mean(0)).square().sum().item()
    expected = means + np.trace(cov_a + cov_b - 2 * sqrtm(cov_a @ cov_b).real)
    assert features.frechet_distance(a, b) == pytest.approx(expected, rel=1e-9)
    assert features.frechet_distance(b, a) == pytest.approx(expected, rel=1e-9)


def test_a_set_has_no_frechet_distance_to_itself_however_few_samples():
    a = normal(8, 50, 0)
    assert features.frechet_distance(a, a) == pytest.approx(0, abs=1e-9)
    assert features.frechet_distance(a, a + 2) == pytest.approx(200, rel=1e-9)  # a pure shift: 50 times 2 squared


def test_the_kernel_distance_is_unbiased():
    found = [features.kernel_distance(normal(40, 10, 2 * seed), normal(40, 10, 2 * seed + 1)) for seed in range(50)]
    assert min(found) < 0 < max(found)
    assert abs(np.mean(found)) < 3 * np.std(found) / len(found) ** 0.5
    assert features.kernel_distance(normal(40, 10, 0), normal(40, 10, 1) + 1) > max(found)


@pytest.mark.parametrize("distance", [features.frechet_distance, features.kernel_distance])
def test_a_set_distance_of_one_image_is_refused(distance):
    with pytest.raises(UserError, match="at least 2 images"):
        distance(normal(1, 4, 0), normal(9, 4, 1))


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "before", "after"), [(6, 3, 2, 0, 1), (5, 3, 2, 1, 1), (7, 5, 1, 2, 2)]
)
def test_same_padding_adds_the_odd_pixel_at_the_far_side(side, kernel, stride, before, after):
    padded = pad_same(torch.ones(1, 1, side, side), kernel=kernel, stride=stride)[0, 0, side // 2]
    assert padded.tolist() == [0] * before + [1] * side + [0] * after


def test_the_backbone_has_the_promised_maps():
    found = features.EfficientNetLite().eval()(torch.zeros(1, 3, 64, 96))
    shapes = [tuple(part.shape) for part in found.maps]
    assert shapes == [(1, 24, 16, 24), (1, 40, 8, 12), (1, 112, 4, 6), (1, 320, 2, 3)]
    assert found.pooled.shape == (1, 1280)


# ---------------------------------------------------------------------------- on the real weights

REAL = [
    pytest.mark.assets,
    pytest.mark.skipif(not assets.is_present("efficientnet-lite0"), reason="run 'python app.py assets fetch'"),
]


def real(test):
    for mark in REAL:
        test = mark(test)
    return test


@real
def test_the_backbone_equals_its_package():
    """Reference: the logits of efficientnet_lite_pytorch 0.1.0 on coloured squares."""
    with np.load(Path(__file__).parent / "data" / "network_parity.npz") as file:
        expected = torch.from_numpy(file["efficientnet"])
    squares = np.random.default_rng(0).integers(0, 256, (4, 10, 10, 3), dtype=np.uint8)
    x = torch.from_numpy(np.kron(squares, np.ones((1, 23, 23, 1), np.uint8))[:, :224, :224]).permute(0, 3, 1, 2)
    torch.testing.assert_close(features.backbone().logits(x / 127.5 - 1), expected, atol=1e-4, rtol=0)


def square(pixels: np.ndarray) -> torch.Tensor:
    side = min(pixels.shape[:2])
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    image = Image.fromarray(pixels[top : top + side, left : left + side]).resize((224, 224), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 127.5 - 1


@real
def test_imagenet_classes_come_out_right():
    from matplotlib import cbook
    from sklearn.datasets import load_sample_image

    hopper = np.asarray(Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))
    palace, daisy, uniform = 698, 985, 652
    for pixels, label in (
        (load_sample_image("china.jpg"), palace),
        (load_sample_image("flower.jpg"), daisy),
        (hopper, uniform),
    ):
        assert features.backbone().logits(square(pixels)).argmax().item() == label


@real
def test_the_set_distances_grow_with_the_damage():
    from sklearn.datasets import load_sample_image

    photo = torch.from_numpy(load_sample_image("china.jpg").copy()).permute(2, 0, 1) / 127.5 - 1
    random = np.random.default_rng(0)
    corners = [(random.integers(0, 427 - 128), random.integers(0, 640 - 128)) for _ in range(48)]
    views = torch.stack([photo[:, y : y + 128, x : x + 128] for y, x in corners])
    blurred = F.avg_pool2d(F.pad(views, (4, 4, 4, 4), mode="reflect"), 9, 1)
    softer = F.avg_pool2d(F.pad(views, (1, 1, 1, 1), mode="reflect"), 3, 1)
    clean, other, soft, blur = (
        features.pooled(part) for part in (views[::2], views[1::2], softer[1::2], blurred[1::2])
    )
    for distance in (features.frechet_distance, features.kernel_distance):
        assert distance(clean, clean.clone()) <= 1e-6
        assert distance(clean, other) < distance(clean, soft) < distance(clean, blur)
