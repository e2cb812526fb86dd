"""What the benchmarks of speed rest on: both ways lose the same at first, and heavy packages wait until asked for."""

import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import eg3d_reference, feature_step, growth, startup, stylegan2_reference
from benchmarks.guide_reference import PublishedStep
from benchmarks.memory import peak
from engine import assets
from engine.delta import editable
from engine.generators import architectures
from engine.generators.tiny import Tiny
from engine.methods.guide import Draws, Guide, sensible_size
from engine.models import pictures, to_pixels
from engine.redirect import Latents
from tests import test_eg3d, test_stylegan2

BUILT = {
    "tiny": {"z_dim": 32, "w_dim": 32},
    "stylegan2": test_stylegan2.TINY,
    "eg3d": test_eg3d.SMALL | {"z_dim": 32, "w_dim": 32},
}


def built(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return architectures[name](**BUILT[name]).eval().requires_grad_(False)


@pytest.mark.assets
@pytest.mark.skipif(
    not all(assets.is_present(name) for name in ("recogniser-a", "lpips-alex")),
    reason="the networks of the losses are not fetched: run 'python app.py assets fetch'",
)
@pytest.mark.parametrize("name", BUILT)
def test_a_guide_step_as_published_loses_the_same_as_ours_and_pulls_the_same_way(name):
    base = built(name)
    knobs, size = Guide(start="base", steps=1, bank=2, neighbours=2, others=2), sensible_size(base)
    person, target = (base.map(base.sample_z([seed])) for seed in (3, 4))
    draws = Draws(knobs, base, Latents.of(base, draws=100), person, target)
    student = copy.deepcopy(base)
    weights = editable(student)
    with torch.no_grad():
        for weight in weights:  # otherwise nothing is lost on random faces
            weight.mul_(1.1)
    ours = Counter()
    for losses in knobs.losses(student, draws, torch.Generator().manual_seed(0)):
        sum(losses.values()).backward()
        ours.update({part: loss.item() for part, loss in losses.items()})
    mine = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
    student.zero_grad()
    random = torch.Generator().manual_seed(0)
    yaw, (_, here, there) = knobs.yaw(base, random), draws.step(random)
    loss = PublishedStep(knobs, base, size, size).loss(student, 1, here, there, yaw)
    loss.backward()
    theirs = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
    assert min(ours.values()) > 1e-4 and abs(sum(ours.values()) - loss.item()) < 1e-4
    assert (mine - theirs).norm() < 1e-2 * theirs.norm()


@pytest.mark.parametrize("name", ["stylegan2", "eg3d"])
def test_the_reference_formulation_draws_the_picture_of_our_generator(name):
    model = built(name)
    w = model.map(model.sample_z([1, 2]))
    for size in model.sizes:
        if name == "eg3d":
            theirs = eg3d_reference.picture_of(model, w, size, 0.2)
        else:
            theirs = stylegan2_reference.render(model, w, size)[1]
        torch.testing.assert_close(model.synth(w, size=size, yaw=0.2), theirs, atol=1e-4, rtol=1e-4)


def test_a_feature_step_of_the_plain_loop_loses_the_same_as_ours_where_something_is_to_forget():
    base = Tiny().eval().requires_grad_(False)
    knobs = replace(feature_step.PRINTED, samples=40, batch=6)
    bench = feature_step.Bench(base, knobs, feature_step.any_feature(base))
    seeds = bench.seeds(3)
    pairs = zip(*(bench.first_losses(way, seeds) for way in (feature_step.PLAIN, feature_step.OURS)), strict=True)
    assert all(plain > 1e-3 and abs(plain - ours) < 1e-4 for plain, ours in pairs)


def test_the_exponent_is_that_of_the_power():
    assert growth.exponent([(x, 3 * x**1.5) for x in (1, 2, 4, 8)]) == pytest.approx(1.5)


def test_the_peak_is_what_was_held_at_most_and_not_what_was_held_before():
    bytearray(300 << 20)
    assert 60 < peak(lambda: torch.ones(1 << 24)) < 90


def test_the_page_imports_no_heavy_package_before_it_is_asked_for():
    assert startup.loaded(("gradio", *startup.LAZY)) == ["gradio"]


def test_the_full_size_is_drawn_exactly_and_a_preview_nearly():
    base = built("tiny")
    w = base.map(base.sample_z(range(12)))
    with torch.no_grad():
        exact, preview = (to_pixels(base.synth(w, size=size)) for size in (16, 8))
    assert (np.stack(pictures(base, w, size=16)) == exact).all() and (np.stack(pictures(base, w)) == exact).all()
    assert abs(np.stack(pictures(base, w, size=8)).astype(int) - preview).max() <= 4
