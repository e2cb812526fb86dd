"""A chain of separable convs gives what its parts give, and keeps little for the backward pass."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from engine import rounded
from engine.generators import chain
from engine.generators.chain import Link

WIDTHS = (3, 4, 5)  # of the map before, between and after two links
SHAPE = (2, 6, 4)  # two maps of six rows


@pytest.fixture(params=[1, 1 << 21], ids=["a sample at a time", "all at once"], autouse=True)
def portions(request, monkeypatch):
    monkeypatch.setattr(chain, "AT_ONCE", request.param)


def parts(dtype=torch.float64):
    """A map and two links; everything but the noise asks for gradients."""
    random = torch.Generator().manual_seed(0)

    def some(*shape):
        return torch.randn(*shape, generator=random, dtype=dtype).requires_grad_()

    links = [Link(some(a, 1, 3, 3), some(SHAPE[0], b, a), some(24, 1).detach(), some(b)) for a, b in pairwise(WIDTHS)]
    return some(*SHAPE, WIDTHS[0]), links


def plainly(x, *links):
    for link in links:
        x = F.conv2d(x.permute(0, 3, 1, 2), link.depth, padding=1, groups=len(link.depth))
        x = torch.einsum("noi,nihw->nohw", link.point, x)
        x = x + link.noise.view(x.shape[2:]) + link.bias[:, None, None]
        x = F.leaky_relu(x, 0.2).permute(0, 2, 3, 1)
    return x


def test_a_chain_is_its_links_one_after_another():
    x, links = parts()
    torch.testing.assert_close(chain.run(x, *links), plainly(x, *links))


def test_a_chain_has_the_gradients_of_its_links():
    x, links = parts()
    given = [x, *(tensor for link in links for tensor in link)]

    def run(x, *flat):
        return chain.run(x, Link(*flat[:4]), Link(*flat[4:]))

    assert torch.autograd.gradcheck(run, given)


def test_only_gradients_are_rounded():
    def run(kind):
        x, links = parts(torch.float32)
        with rounded.gradients(kind):
            y = chain.run(x, *links)
        y.square().sum().backward()
        return y, [
            x.grad,
            *(link.depth.grad for link in links),
            *(link.point.grad for link in links),
            links[0].bias.grad,
        ]

    (exact, right), (same, near) = run(torch.float32), run(torch.bfloat16)
    assert torch.equal(exact, same)
    for a, b in zip(right, near, strict=True):
        assert b.dtype == torch.float32
        assert 0 < (a - b).norm() <= 0.02 * a.norm()  # two links of bfloat16's 8 bits


def test_between_two_links_nothing_is_kept_in_full():
    x, links = parts(torch.float32)
    with rounded.gradients(torch.bfloat16):
        y = chain.run(x, *links)
    assert {kept.dtype for kept in y.grad_fn.saved_tensors} == {torch.bfloat16}


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_of_frozen_links_only_weights_and_signs_are_kept(kind):
    x, links = parts(torch.float32)
    links = [Link(*(tensor.detach() for tensor in link)) for link in links]
    with rounded.gradients(kind):
        y = chain.run(x, *links)
    kept = y.grad_fn.saved_tensors
    assert [tensor is None for tensor in kept[:4]] == [False] * 4
    assert [tensor is None for tensor in kept[4:]] == [True, False] * (len(kept[4:]) // 2)
    y.sum().backward()
    exact = torch.autograd.grad(plainly(x, *links).sum(), x)[0]
    torch.testing.assert_close(x.grad, exact, rtol=0.05, atol=0.05 if kind == torch.bfloat16 else 1e-4)


def test_a_chain_may_compute_in_bfloat16_as_a_whole():
    x, links = parts(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = chain.run(x, *links)
    assert y.dtype == torch.bfloat16
    y.float().square().sum().backward()
    for given in (x, *(tensor for link in links for tensor in (link.depth, link.point, link.bias))):
        assert given.grad.dtype == torch.float32 and given.grad.abs().sum() > 0


def test_scaled_weights_are_the_product_and_have_its_gradients():
    random = torch.Generator().manual_seed(0)
    weight, style = (torch.randn(*shape, generator=random).requires_grad_() for shape in ((4, 3), (2, 3)))
    plain = weight * style[:, None]
    assert torch.equal(chain.scaled(weight, style), plain)
    with torch.autocast("cpu", torch.bfloat16):
        quick = chain.scaled(weight, style)
    assert torch.equal(quick, plain.bfloat16())  # rounded once
    given = [one.detach().double().requires_grad_() for one in (weight, style)]
    assert torch.autograd.gradcheck(chain.scaled, given)
