"""Structural similarity from 28 px up, against the public package where that works."""

import pytest
import pytorch_msssim
import torch

from benchmarks import feature_reference
from engine.core.errors import UserError
from engine.msssim import levels_of, msssim, structure_distance

SIDES = (28, 32, 64, 128, 160, 161, 176, 256)


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


@pytest.mark.parametrize("side", [161, 168, 175, 176, 256])
@pytest.mark.parametrize("noise", [0.02, 0.1, 0.5])
def test_large_pairs_are_as_alike_as_the_public_package_says(side, noise):
    x, y = pair(side, noise)
    theirs = pytorch_msssim.ms_ssim(x, y, data_range=1.0, size_average=False)
    assert torch.allclose(msssim(x, y), theirs, atol=1e-4)  # its weights sum to 1.0001, ours to 1


@pytest.mark.parametrize(("side", "asked"), [(160, False), (161, True)])
def test_the_public_package_is_asked_from_161_px_on(side, asked, monkeypatch):
    calls, theirs = [], pytorch_msssim.ms_ssim
    monkeypatch.setattr(pytorch_msssim, "ms_ssim", lambda *a, **k: calls.append(a) or theirs(*a, **k))
    msssim(*pair(side))
    assert bool(calls) == asked


def test_beside_a_pair_without_likeness_another_keeps_its_value_and_both_have_a_slope():
    x, y = pair(176)
    mixed = torch.cat([y, 1 - x]).requires_grad_(True)
    values = msssim(mixed, torch.cat([x, x]))
    assert torch.allclose(values[:2], msssim(y, x)) and (values[2:] > 0).all()
    values.sum().backward()
    assert mixed.grad.isfinite().all() and (mixed.grad.abs().amax((1, 2, 3)) > 0).all()


def test_pictures_smaller_than_the_window_are_refused():
    with pytest.raises(UserError, match="at least 7 px"):
        msssim(torch.rand(1, 3, 6, 6), torch.rand(1, 3, 6, 6))


@pytest.mark.parametrize("side", [7, 28, 33, 64, 160])
@pytest.mark.parametrize("noise", [0.02, 0.5])
def test_value_and_slopes_are_those_of_the_plain_formulation(side, noise):
    x, y = (2 * one.double() - 1 for one in pair(side, noise))
    y[1] = -x[1]  # nothing alike
    found = []
    for way in (structure_distance, feature_reference.structure_distance):
        both = [one.clone().requires_grad_(True) for one in (x, y)]
        value = way(*both)
        value.dot(value.new_tensor([1.0, 2.0])).backward()
        found.append((value.detach(), *(one.grad for one in both)))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-12)


def test_a_blur_first_asked_for_in_inference_mode_can_be_learnt_through_later():
    x, y = (one[..., :19, :23] for one in pair(28))  # sides that no other test asks for
    with torch.inference_mode():
        msssim(x, y)
    moved = y.clone().requires_grad_(True)
    msssim(moved, x).sum().backward()
    assert moved.grad.abs().max() > 0


def test_no_pairs_have_no_values():
    assert msssim(torch.rand(0, 3, 28, 28), torch.rand(0, 3, 28, 28)).shape == (0,)
