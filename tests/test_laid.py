"""Weights that are laid out once give what the conv itself gives, and its gradient."""

import pytest
import torch
from torch import nn

from engine.laid import LaidConv, PhasedConv, lay_out


def frozen(*args, **how) -> nn.Conv2d:
    torch.manual_seed(0)
    return nn.Conv2d(*args, **how).requires_grad_(False)


@pytest.mark.parametrize("sides", [(7, 7), (9, 5)])
@pytest.mark.parametrize("kernel", [3, 5])
def test_a_laid_conv_is_the_conv_and_sends_the_same_gradient_back(kernel, sides):
    conv = frozen(6, 9, kernel, padding=kernel // 2)
    laid = LaidConv(conv)
    for count in (1, 3):  # the second time with what was laid out for another number of samples
        x = torch.randn(count, 6, *sides).requires_grad_()
        (wanted, right), (found, slope) = (
            (y := layer(x), torch.autograd.grad(y.square().sum(), x)[0]) for layer in (conv, laid)
        )
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(slope, right, atol=1e-4, rtol=1e-4)
    assert len(laid._laid) == 2  # the way there and the way back, once each


def test_other_number_types_take_the_conv_itself():
    laid = LaidConv(frozen(3, 4, 3, padding=1))
    x = torch.randn(1, 3, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert laid(x).dtype == torch.bfloat16
    assert laid.double()(x.double()).dtype == torch.double
    assert not laid._laid
    phased = PhasedConv(frozen(3, 4, 3, stride=2))
    with torch.autocast("cpu", torch.bfloat16):
        assert phased(x).dtype == torch.bfloat16


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(11, 4, 2), (3, 2, 1), (5, 3, 0), (2, 2, 0)])
@pytest.mark.parametrize("sides", [(16, 21), (19, 14)])
def test_a_phased_conv_is_the_conv_and_sends_the_same_gradient_back(kernel, stride, padding, sides):
    conv = frozen(3, 5, kernel, stride=stride, padding=padding)
    x = torch.randn(2, 3, *sides).requires_grad_()
    (wanted, right), (found, slope) = (
        (y := layer(x), torch.autograd.grad(y.square().sum(), x)[0]) for layer in (conv, PhasedConv(conv))
    )
    assert torch.equal(found, wanted)
    torch.testing.assert_close(slope, right, atol=1e-4, rtol=1e-4)


def test_convs_that_neither_keep_the_side_nor_have_a_stride_stay_as_they_are():
    network = lay_out(
        nn.Sequential(
            frozen(3, 4, 11, stride=4, padding=2), nn.ReLU(), frozen(4, 4, 3, padding=1), frozen(4, 4, 3), nn.ReLU()
        )
    )
    assert [type(layer) for layer in network] == [PhasedConv, nn.ReLU, LaidConv, nn.Conv2d, nn.ReLU]
