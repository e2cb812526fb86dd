"""Structural similarity from 28 px up, against the public package where that works."""

import pytest
import torch

from engine.core.errors import UserError
from engine.msssim import levels_of, msssim, structure_distance

SIDES = (28, 32, 64, 128, 160, 256)


def pair(side, noise=0.1, seed=0):
    random = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.interpolate(torch.rand(2, 3, 8, 8, generator=random), size=side, mode="bicubic")
    return x.clamp(0, 1), (x + noise * torch.randn(x.shape, generator=random)).clamp(0, 1)


@pytest.mark.parametrize(("side", "levels"), [(28, 3), (32, 3), (64, 4), (128, 5), (256, 5), (7, 1), (6, 0)])
def test_the_number_of_scales_follows_the_side(side, levels):
    assert levels_of(side) == levels


@pytest.mark.parametrize("side", SIDES)
def test_equal_pictures_score_one(side):
    x, _ = pair(side)
    assert (msssim(x, x) - 1).abs().max() <= 1e-6
    assert (structure_distance(2 * x - 1, 2 * x - 1)).abs().max() <= 1e-6


@pytest.mark.parametrize("side", SIDES)
def test_the_slope_is_finite_and_not_zero_where_the_plain_formula_has_none(side):
    x, _ = pair(side)
    flat = torch.full_like(x, 0.5)
    for start, goal in ((1 - x, x), (flat, x), (x, flat)):
        moved = start.clone().requires_grad_(True)
        msssim(moved, goal).sum().backward()
        assert moved.grad.isfinite().all() and moved.grad.abs().max() > 0


@pytest.mark.parametrize("side", SIDES)
def test_the_data_range_only_sets_the_unit(side):
    x, y = pair(side)
    assert torch.allclose(msssim(x, y), msssim(255 * x, 255 * y, data_range=255.0), atol=1e-5)


def test_more_noise_is_less_alike():
    values = [msssim(*pair(64, noise)).mean() for noise in (0.02, 0.1, 0.3)]
    assert values[0] > values[1] > values[2]


def test_large_ordinary_pairs_agree_with_the_public_package():
    package = pytest.importorskip("pytorch_msssim")
    x, y = pair(256)
    theirs = package.ms_ssim(x, y, data_range=1.0, size_average=False)
    assert torch.allclose(msssim(x, y), theirs, atol=1e-5)


def test_pictures_smaller_than_the_window_are_refused():
    with pytest.raises(UserError, match="at least 7 px"):
        msssim(torch.rand(1, 3, 6, 6), torch.rand(1, 3, 6, 6))
