import pytest
import torch

from engine import assets
from engine.core.events import result
from engine.generators.tiny import Tiny
from engine.identity.check import Check, Verdict
from engine.identity.judge import Judge, Scale, interval
from engine.redirect import Latents, redirect

needs = pytest.mark.skipif(
    not all(assets.is_present(name) for name in ("recogniser-a", "recogniser-b", "lpips-alex")),
    reason="the face recognisers are not fetched: run 'python app.py assets fetch'",
)


def verdict(person, everyone):
    return Verdict((person, 0, 0), (everyone, 0, 0), (0.0, 0, 0), (0.0, 0.1, 0.3), {})


def test_the_score_rewards_erasing_and_keeping_together():
    assert verdict(0.0, 1.0).score == pytest.approx(1.0)
    assert verdict(1.0, 1.0).score == 0 and verdict(0.0, 0.0).score == 0
    assert verdict(0.0, 0.6).score == pytest.approx(0.75)
    assert verdict(0.05, 1.0).is_stranger and not verdict(0.2, 1.0).is_stranger


def test_the_interval_holds_the_mean_and_narrows_with_more_values():
    few, many = interval(torch.arange(10.0)), interval(torch.arange(10.0).repeat(40))
    assert few[1] < few[0] == 4.5 < few[2]
    assert many[2] - many[1] < few[2] - few[1]


@pytest.mark.assets
@needs
def test_an_unchanged_model_is_judged_unchanged_and_a_changed_one_is_not(tmp_path):
    base = Tiny(z_dim=32, w_dim=32).requires_grad_(False)
    scale = Scale.of(base, faces=16, size=16)
    scale.save(tmp_path / "scale.safetensors")
    assert torch.equal(Scale.load(tmp_path / "scale.safetensors").mean, scale.mean)
    check = Check(Judge(scale), faces=6, size=16)
    w = base.map(base.sample_z([3]))
    same = result(check.run(base, base, w, photos=w, people=w))
    assert same.person[0] == pytest.approx(1, abs=1e-4) and same.drift[0] == 0
    changed = Tiny(z_dim=32, w_dim=32).requires_grad_(False)
    redirect(changed, Latents.of(base), w, base.map(base.sample_z([4])))
    moved = result(check.run(base, changed, w))
    assert moved.person[0] < 0.9 and moved.drift[0] > 0 and moved.other_photos is None
    assert moved.worst["before"].shape == (6, 16, 16, 3)
