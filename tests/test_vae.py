"""Autoencoders speak the joint standardised noise, exactly, and learn."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.events import Done, Progress, Snapshot, result
from engine.generators import bases
from engine.generators.vae import Vae, flatten, layout, unflatten, widened
from engine.train.start import draw_weights
from engine.train.vae import SHAPES, digits, measure, train

PLAIN = {"top": 4, "levels": (), "widths": (8, 6, 4), "colours": 1}
DEEP = {"top": 4, "levels": ((4, 2), (8, 1)), "widths": (8, 6, 4), "colours": 3}
SETTINGS = {"steps": 12, "batch": 8, "beta": 1.0, "lr": 3e-3, "seed": 0}


def fresh(config, seed):
    return draw_weights(Vae(**config), seed)


@pytest.fixture
def deep():
    return fresh(DEEP, seed=0)


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=4), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_flatten_and_unflatten_are_exact_inverses(shapes, n):
    slots = layout([tuple(shape) for shape in shapes])
    noises = [torch.randn(n, *shape) for shape in shapes]
    w = flatten(noises)
    assert w.shape == (n, 1, sum(slot.length for slot in slots))
    assert all(torch.equal(a, b) for a, b in zip(noises, unflatten(w, slots), strict=True))
    assert torch.equal(flatten(unflatten(w, slots)), w)


def test_the_table_says_where_each_level_stands(deep):
    assert [(slot.level, slot.shape, slot.offset) for slot in deep.slots] == [
        (0, (4,), 0),
        (1, (2, 4, 4), 4),
        (2, (1, 8, 8), 36),
    ]
    assert deep.w_dim == 100


def test_every_level_moves_the_picture_and_only_the_noise_is_edited(deep):
    w = deep.map(deep.sample_z([0]))
    base = deep.synth(w)
    for slot in deep.slots:
        other = w.clone()
        other[:, :, slot.offset : slot.offset + slot.length] += 1
        assert not torch.allclose(deep.synth(other), base, atol=1e-5)


def test_the_prior_of_a_lower_level_depends_on_the_levels_above(deep):
    """Otherwise there would be no reason to edit noise instead of z."""
    seen = []
    deep.decoder.levels["8"].register_forward_hook(lambda layer, args, out: seen.append(out[0]))
    w = deep.map(deep.sample_z([0, 1]))
    deep.synth(w)
    assert not torch.allclose(seen[0][0], seen[0][1])


def test_a_picture_is_a_mean_and_not_a_draw(deep):
    w = deep.map(deep.sample_z([5]))
    assert torch.equal(deep.synth(w), deep.synth(w))


@pytest.mark.parametrize("config", [PLAIN, DEEP])
def test_the_noise_of_a_picture_brings_it_back(config):
    model = fresh(config, seed=1)
    picture = torch.rand(2, 3, 16, 16) * 2 - 1
    w, restored, divergences = model.infer(picture)
    assert torch.allclose(model.synth(w), restored, atol=1e-5)
    assert len(divergences) == len(model.slots)
    assert all((kl >= 0).all() for kl in divergences)


def test_kl_is_zero_exactly_where_posterior_and_prior_agree(deep):
    with torch.no_grad():
        for layer in (
            deep.encoder.top,
            *deep.encoder.posteriors.values(),
            *(g.prior for g in deep.decoder.levels.values()),
        ):
            layer.weight.zero_(), layer.bias.zero_()
    divergences = deep.infer(torch.rand(1, 3, 16, 16))[2]
    assert all(kl.item() == 0 for kl in divergences)


def test_kl_agrees_with_torch_distributions():
    model = fresh(PLAIN, seed=2)
    picture = torch.rand(3, 1, 16, 16)
    maps = model.encoder(picture)
    mean, log = model.encoder.top(maps[4].flatten(1)).chunk(2, dim=1)
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mean, log.exp()), normal(0.0, 1.0)).sum(1)
    assert torch.allclose(model.infer(picture)[2][0], expected, rtol=1e-4)


def test_training_lowers_the_error():
    images = digits()[:64, :, ::2, ::2].contiguous()
    longer = SETTINGS | {"steps": 60, "lr": 1e-2}
    errors = [e.scalars["l1"] for e in train(fresh(PLAIN, 0), images, **longer) if isinstance(e, Progress)]
    assert sum(errors[-5:]) < 0.8 * sum(errors[:5])


def test_training_repeats_itself():
    images = digits()[:64, :, ::2, ::2].contiguous()
    once, again = (result(train(fresh(DEEP | {"colours": 1}, 0), images, **SETTINGS)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), once.parameters(), strict=True))


def test_a_cut_off_run_goes_on_to_the_same_weights(monkeypatch):
    monkeypatch.setattr("engine.train.vae.EVERY", 5)
    images = digits()[:64, :, ::2, ::2].contiguous()
    whole = result(train(fresh(PLAIN, 0), images, **SETTINGS))
    snapshot = next(e for e in train(fresh(PLAIN, 0), images, **SETTINGS) if isinstance(e, Snapshot))
    rest = train(fresh(PLAIN, 7), images, **SETTINGS, snapshot=snapshot.tensors)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), result(rest).parameters(), strict=True))


def test_a_driver_may_stop_and_keep():
    images = digits()[:64, :, ::2, ::2].contiguous()
    task = train(fresh(PLAIN, 0), images, **SETTINGS)
    next(task)
    assert isinstance(task.send(True), Done)


def test_every_shape_on_offer_can_be_built():
    sides = {"digits": 32, "faces": 64}
    for (data, kind), config in SHAPES.items():
        model = Vae(**config)
        assert model.size == sides[data]
        assert (len(model.slots) > 1) == (kind == "hierarchical")


@pytest.mark.parametrize("name", ["digits-vae", "faces-vae"])
def test_a_shipped_base_needs_no_assets_and_draws(name):
    assert bases[name].needs == ()
    model = bases[name].load()
    with torch.no_grad():
        images = model.synth(model.map(model.sample_z(range(8))))
    assert images.std(0).mean() > 0.1
    assert images.abs().max() <= 1


def test_the_shipped_digits_come_back():
    splits_left_out = digits()[:100]
    assert measure(bases["digits-vae"].load(), splits_left_out)["l1"] < 0.15


def test_in_bfloat16_a_doubled_map_is_the_same_conv_with_the_same_gradients_up_to_rounding():
    random = torch.Generator().manual_seed(0)
    conv = torch.nn.Conv2d(5, 7, 3, padding=1)
    x = torch.randn(2, 5, 6, 4, generator=random).requires_grad_()
    found = []
    for quick in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=quick):
            y = widened(x.bfloat16() if quick else x, conv).float()
        found.append((y.detach(), *torch.autograd.grad(y.square().sum(), (x, conv.weight, conv.bias))))
    for rounded, exact in zip(*found, strict=True):
        assert rounded.dtype == torch.float32 and (rounded - exact).norm() <= 0.02 * exact.norm()  # 8 bits
    assert torch.equal(found[1][0], conv(torch.nn.functional.interpolate(x, scale_factor=2.0)))
