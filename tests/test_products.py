"""Quick products are products, in every number type that a network may be asked for."""

import pytest
import torch

from engine import products


def operands(dtype):
    random = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=random, dtype=dtype) for shape in ((5,), (2, 40, 24), (2, 5, 24))]


@pytest.mark.parametrize(("dtype", "off"), [(torch.float32, 1e-6), (torch.float64, 1e-15), (torch.bfloat16, 1e-2)])
def test_products_are_what_torch_gives(dtype, off):
    bias, x, weight = operands(dtype)
    right = (x.double() @ weight.double().mT) + bias.double()
    for found in (products.batched(bias, x, weight)[1], products.linear(x[1], weight[1], bias)):
        assert found.dtype == dtype
        assert (found - right[1]).norm() <= off * right[1].norm()
    torch.testing.assert_close(products.linear(x[0], weight[0]), x[0] @ weight[0].mT)


@pytest.mark.parametrize("offset", [(1,), (5,), (40, 1), (40, 5), (2, 40, 5)])
def test_an_offset_is_spread_over_samples_and_places(offset, monkeypatch):
    bias, x, weight = operands(torch.float32)
    offset = torch.randn(offset)
    torch.testing.assert_close(products.batched(offset, x, weight), torch.baddbmm(offset, x, weight.mT))
    right = torch.baddbmm(offset + bias, x, weight.mT)
    torch.testing.assert_close(products.batched(offset, x, weight, bias), right)
    monkeypatch.setattr(products, "PLACES", 16)  # two parts and a half
    torch.testing.assert_close(products.batched(offset, x, weight, bias), right)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_leaky_relu_and_a_rounded_copy_come_along(dtype, monkeypatch):
    bias, x, weight = operands(dtype)
    monkeypatch.setattr(products, "PLACES", 16)
    copy = torch.empty(2, 40, 5, dtype=torch.bfloat16)
    y = products.batched(torch.zeros(1, dtype=dtype), x, weight, bias, 0.2, copy)
    torch.testing.assert_close(y, torch.nn.functional.leaky_relu(x @ weight.mT + bias, 0.2))
    assert torch.equal(copy, y.bfloat16())


def test_views_are_taken_as_they_stand():
    _, x, weight = operands(torch.float32)
    turned = weight[0].T.contiguous().T  # other strides, same numbers
    torch.testing.assert_close(products.linear(x[0, ::2], turned), x[0, ::2] @ weight[0].T)


def test_a_network_that_computes_in_bfloat16_has_its_products_in_it():
    bias, x, weight = operands(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert products.linear(x[0], weight[0]).dtype == products.batched(bias, x, weight).dtype == torch.bfloat16


def test_a_product_cast_to_another_number_type_is_whole_however_few_places_are_taken_at_a_time(monkeypatch):
    x, weight = operands(torch.bfloat16)[1:]
    whole = torch.bmm(x, weight.mT)
    monkeypatch.setattr(products, "PLACES", 16)  # two parts and a shorter one
    found = products.cast(x, weight.mT, torch.float32)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, whole.float(), atol=0.05, rtol=0.02)  # sums of bfloat16 in another order
    assert torch.equal(products.cast(x, weight.mT, torch.bfloat16), whole)
