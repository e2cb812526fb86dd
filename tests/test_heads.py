"""Preview heads learn the full picture, from the closed form on, the same way every time."""

import json

import pytest
import torch
from safetensors import safe_open

from engine.core.events import Done, Progress, Snapshot, result
from engine.generators.ffhq import HEADS
from engine.generators.mobile import Mobile
from engine.train import heads

SETTINGS = {"chunks": 2, "steps": 6, "batch": 2, "lr": 1e-3, "seed": 0}


def rough(a, b):
    """Stands in for LPIPS where no network is at hand: the mean difference of neighbouring pixels' steps."""
    return (a.diff(dim=3) - b.diff(dim=3)).abs().mean((1, 2, 3))


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(heads, "CHUNK", 4)
    monkeypatch.setattr(heads, "EVERY", 4)
    torch.manual_seed(0)
    made = Mobile(channels=(16, 16, 8, 8), w_dim=8, depth=2, previews=(16, 32), hidden=(4, 4))
    made.w_avg.copy_(heads.average(made, seed=0, n=5000))
    return made.requires_grad_(False)


@pytest.fixture
def data(model, tmp_path):
    return lambda chunk: heads.pictures(model, tmp_path, 0, chunk)


def test_codes_are_drawn_by_number_and_half_of_them_are_plain_w(model):
    first, again = heads.codes(model, 0, 3), heads.codes(model, 0, 3)
    assert torch.equal(first, again)
    assert not torch.equal(first, heads.codes(model, 1, 3))
    plain = [torch.equal(code, code[:1].expand_as(code)) for code in first]
    assert plain == [True, True, False, False]


def test_pictures_are_made_once(model, data, monkeypatch):
    made = data(0)[1]
    monkeypatch.setattr(model, "synth", None)
    assert torch.equal(data(0)[1], made)
    assert made.shape == (4, 3, 32, 32), "the largest preview's side"


def test_the_closed_form_beats_the_mean_colour(model, data):
    w, target = data(0)
    heads.fit_linear(model, w, target)
    found = heads.losses(model, w, target.float(), rough, (0.5, 0.5))
    wanted = heads.shrink(target.float(), 16)
    assert found["l1 16"] < 0.9 * (wanted - wanted.mean((2, 3), keepdim=True)).abs().mean()


def test_training_goes_on_from_the_closed_form_and_repeats_itself(model, data):
    w, target = data(0)
    heads.fit_linear(model, w, target)
    start = {name: tensor.clone() for name, tensor in model.heads.state_dict().items()}
    runs = []
    for _ in range(2):
        model.heads.load_state_dict(start)
        runs.append(result(heads.train(model, data, rough, **SETTINGS)).state_dict())
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in start)
    assert any(not torch.equal(runs[0][name], start[name]) for name in start)


def test_training_touches_the_heads_alone(model, data):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    result(heads.train(model, data, rough, **SETTINGS))
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all(name.startswith("heads.") for name in changed)


def test_a_cut_off_run_goes_on_to_the_same_heads(model, data):
    start = {name: tensor.clone() for name, tensor in model.heads.state_dict().items()}
    whole = result(heads.train(model, data, rough, **SETTINGS)).state_dict()
    model.heads.load_state_dict(start)
    snapshot = next(e for e in heads.train(model, data, rough, **SETTINGS) if isinstance(e, Snapshot))
    model.heads.load_state_dict(start)
    rest = result(heads.train(model, data, rough, **SETTINGS, snapshot=snapshot.tensors)).state_dict()
    assert all(torch.equal(whole[name], rest[name]) for name in whole)


def test_a_driver_may_stop_and_keep(model, data):
    task = heads.train(model, data, rough, **SETTINGS)
    assert isinstance(next(task), Progress)
    assert isinstance(task.send(True), Done)


def test_the_shipped_heads_say_what_they_reach():
    with safe_open(HEADS, framework="pt") as file:
        card = json.loads(file.metadata()["card"])
    assert card["held_out_pictures"] >= 200
    assert all(card["held_out"][f"lpips {side}"] <= 0.05 for side in (64, 128, 256))
    assert HEADS.stat().st_size < 2_000_000
