"""EG3D's decoder, some points at a time, gives what its layers give, and hands on the same gradients."""

import pytest
import torch

from benchmarks.eg3d_reference import decode
from engine import rounded
from engine.generators import decoder
from engine.generators.decoder import Decoder


@pytest.fixture
def few(monkeypatch):
    """Of seven points, five and two."""
    monkeypatch.setattr(decoder, "POINTS", 5)


def made(dtype):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Decoder(3, lr_mult=1.0).to(dtype), torch.randn(1, 7, 3, dtype=dtype).requires_grad_()


@pytest.mark.usefixtures("few")
def test_points_are_decoded_as_by_the_layers():
    model, features = made(torch.float64)
    for found, right in zip(model(features), decode(model, features), strict=True):
        torch.testing.assert_close(found, right)


@pytest.mark.usefixtures("few")
def test_gradients_are_those_of_the_layers():
    model, features = made(torch.float64)
    given = [features, *model.parameters()]

    def slopes(colours, sigma):
        return torch.autograd.grad(colours.square().sum() + sigma.exp().sum(), given)

    for found, right in zip(slopes(*model(features)), slopes(*decode(model, features)), strict=True):
        torch.testing.assert_close(found, right)


def test_a_frozen_decoder_still_hands_gradients_on_and_may_round_them():
    model, features = made(torch.float32)
    model.requires_grad_(False)
    (right,) = torch.autograd.grad(decode(model, features)[0].square().sum(), features)
    with rounded.gradients(torch.bfloat16):
        colours, _ = model(features)
    torch.testing.assert_close(colours, decode(model, features)[0])
    (found,) = torch.autograd.grad(colours.square().sum(), features)
    assert found.dtype == torch.float32 and 0 < (found - right).norm() <= 0.02 * right.norm()
