"""Rounded gradients change the way downhill a little, and nothing that is shown."""

import pytest
import torch
import torch.nn.functional as F

from engine import rounded


def operands(*shapes, dtype=torch.float64):
    random = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("offset", [(4,), (5, 4), (2, 5, 4)])
def test_a_product_has_the_gradients_of_its_formula(offset):
    assert torch.autograd.gradcheck(rounded.product, operands(offset, (2, 5, 3), (2, 4, 3)))


@pytest.mark.parametrize("groups", [1, 4])
def test_a_convolution_has_the_gradients_of_its_formula(groups):
    x, weight, bias = operands((2, 4, 5, 6), (4, 4 // groups, 3, 3), (4,))
    assert torch.equal(
        rounded.conv2d(x, weight, bias, groups=groups), F.conv2d(x, weight, bias, padding=1, groups=groups)
    )
    assert torch.autograd.gradcheck(lambda *given: rounded.conv2d(*given, groups=groups), (x, weight, bias))


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format])
def test_a_gradient_lies_as_its_map_does(order, learns):
    x, weight = operands((2, 4, 5, 6), (4, 4, 3, 3))
    x = x.detach().contiguous(memory_format=order).requires_grad_()
    y = rounded.conv2d(x, weight.detach().requires_grad_(learns))
    handed = []
    x.register_hook(handed.append)
    y.backward(torch.ones_like(y, memory_format=torch.contiguous_format))
    assert handed[0].is_contiguous(memory_format=order)


def test_nothing_is_computed_for_what_asks_for_no_gradient():
    offset, x, weight = operands((4,), (2, 5, 3), (2, 4, 3))
    y = rounded.product(offset.detach(), x, weight.detach())
    assert y.grad_fn.saved_tensors[0] is None  # x is kept for the weight's gradient alone
    y.sum().backward()
    assert x.grad is not None and offset.grad is None and weight.grad is None


def test_only_gradients_are_rounded():
    def run(kind):
        offset, x, weight = operands((32,), (2, 50, 24), (2, 32, 24), dtype=torch.float32)
        with rounded.gradients(kind):
            y = rounded.product(offset, x, weight)
        y.square().sum().backward()  # after the block: the type is that of the forward pass
        return y, [given.grad for given in (offset, x, weight)]

    (exact, right), (same, near) = run(torch.float32), run(torch.bfloat16)
    assert torch.equal(exact, same)
    for a, b in zip(right, near, strict=True):
        assert b.dtype == torch.float32
        assert (a - b).norm() <= 0.01 * a.norm()  # bfloat16 keeps 8 bits
    assert not torch.equal(right[1], near[1])


def test_the_block_ends_where_it_ends():
    x = torch.zeros(1)
    with pytest.raises(ValueError), rounded.gradients(torch.bfloat16):
        assert rounded.type_for(x) == torch.bfloat16
        raise ValueError
    assert rounded.type_for(x) == torch.float32


@pytest.mark.parametrize("conv", [rounded.conv2d, rounded.doubling_conv2d])
def test_a_network_may_still_compute_in_bfloat16_as_a_whole(conv):
    offset, x, point, weight = operands((4,), (2, 36, 4), (2, 4, 4), (4, 4, 3, 3), dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = rounded.product(offset, x, point).mT.unflatten(2, (6, 6))
        y = conv(y, weight)  # weights are single, what comes in is not
    assert y.dtype == torch.bfloat16
    y.float().square().sum().backward()
    for given in (offset, x, point, weight):
        assert given.grad.dtype == torch.float32 and given.grad.abs().sum() > 0
