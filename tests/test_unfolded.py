"""Convs of small maps as matrix products are the same convs, and hand on the same gradients."""

import pytest
import torch
import torch.nn.functional as F

from engine import rounded
from engine.generators import unfolded

PLAINLY = {
    unfolded.conv3x3: lambda x, weight: F.conv2d(x, weight, padding=1),
    unfolded.doubling: lambda x, weight: F.conv_transpose2d(x, weight.transpose(0, 1), stride=2),
    unfolded.doubling4x4: lambda x, weight: F.conv_transpose2d(x, weight, stride=2, padding=1),
}


def operands(conv, dtype=torch.float64):
    random = torch.Generator().manual_seed(0)
    shapes = (2, 3, 4, 5), (3, 6, 4, 4) if conv is unfolded.doubling4x4 else (6, 3, 3, 3)
    return [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("conv", PLAINLY)
def test_a_product_with_columns_is_the_conv(conv):
    x, weight = operands(conv)
    torch.testing.assert_close(conv(x, weight), PLAINLY[conv](x, weight))
    assert torch.autograd.gradcheck(conv, (x, weight))


@pytest.mark.parametrize("conv", PLAINLY)
def test_gradients_have_the_order_of_the_weights_and_can_be_rounded(conv):
    x, weight = operands(conv, torch.float32)
    right = torch.autograd.grad(PLAINLY[conv](x, weight).square().sum(), (x, weight))
    with rounded.gradients(torch.bfloat16):
        y = conv(x, weight)
    found = torch.autograd.grad(y.square().sum(), (x, weight))
    assert found[1].is_contiguous()
    for a, b in zip(right, found, strict=True):
        assert b.dtype == torch.float32 and 0 < (a - b).norm() <= 0.01 * a.norm()


@pytest.mark.parametrize("conv", PLAINLY)
def test_nothing_is_computed_for_what_asks_for_no_gradient(conv):
    x, weight = operands(conv)
    conv(x, weight.detach()).sum().backward()
    conv(x.detach(), weight).sum().backward()
    assert x.grad is not None and weight.grad is not None


def test_only_maps_of_few_places_are_taken():
    weight = torch.zeros(8, 64, 3, 3)
    assert unfolded.suits(torch.zeros(2, 64, 8, 8), weight)
    assert not unfolded.suits(torch.zeros(3, 64, 8, 8), weight)
    assert not unfolded.suits(torch.zeros(1, 64, 4, 4), torch.zeros(8, 64, 1, 1))
