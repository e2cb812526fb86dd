"""What every method must hold, driven by the registry: a new method is tested by being registered."""

import pytest
import torch

from engine.core.events import Done, Progress, Snapshot
from engine.core.knobs import knobs
from engine.core.protocols import Generator
from engine.data import LatentBatch, Request
from engine.delta import compose, fingerprint
from engine.generators.tiny import Tiny
from engine.methods import methods

ON_GENERATORS = [name for name, method in methods.items() if method.accepts is Generator]


@pytest.fixture
def base():
    return Tiny(z_dim=32, w_dim=32).eval().requires_grad_(False)


@pytest.fixture
def request_(base):
    def codes(first, last):
        return LatentBatch(base.map(base.sample_z(range(first, last))), "seeds")

    return Request(codes(0, 12), "a test", codes(100, 112))


def quick(name, **more):
    known = {field.name for field in knobs(methods[name])}
    return methods[name](**{k: v for k, v in {"steps": 4, "snapshot_every": 2, **more}.items() if k in known})


def drive(task, stop_at=None):
    events, answer = [], None
    try:
        while True:
            events.append(task.send(answer))
            answer = stop_at is not None and isinstance(events[-1], Progress) and events[-1].step >= stop_at
    except StopIteration:
        return events


@pytest.mark.parametrize("name", ON_GENERATORS)
def test_a_method_reports_its_steps_and_ends_with_deltas(name, base, request_):
    events = drive(quick(name).run(base, request_))
    steps = [event.step for event in events if isinstance(event, Progress)]
    assert steps == sorted(steps) and steps[-1] == 4
    assert isinstance(events[-1], Done) and all(delta.tensors for delta in events[-1].result)


@pytest.mark.parametrize("name", ON_GENERATORS)
def test_a_method_leaves_the_base_untouched_and_is_withdrawn_bit_for_bit(name, base, request_):
    before, w = fingerprint(base), request_.forget.w
    shown = base.synth(w)
    deltas = drive(quick(name).run(base, request_))[-1].result
    assert not torch.equal(compose(base, deltas).synth(w), shown), "the method changed nothing"
    assert fingerprint(base) == before
    assert torch.equal(compose(base, []).synth(w), shown)


@pytest.mark.parametrize("name", ON_GENERATORS)
def test_the_same_seed_gives_the_same_delta(name, base, request_):
    prints = [drive(quick(name, seed=5).run(base, request_))[-1].result[0].fingerprint for _ in range(2)]
    assert prints[0] == prints[1]


@pytest.mark.parametrize("name", ON_GENERATORS)
def test_stop_and_keep_ends_within_one_step_and_gives_a_delta(name, base, request_):
    events = drive(quick(name, steps=50).run(base, request_), stop_at=2)
    assert max(event.step for event in events if isinstance(event, Progress)) <= 3
    assert isinstance(events[-1], Done) and events[-1].result


@pytest.mark.parametrize("name", ON_GENERATORS)
def test_a_run_resumed_from_its_snapshot_ends_as_if_never_interrupted(name, base, request_):
    method = quick(name, steps=6)
    events = drive(method.run(base, request_))
    snapshots = [event for event in events if isinstance(event, Snapshot)]
    assert snapshots, "no snapshot to resume from"
    again = drive(method.run(base, request_, dict(snapshots[0].tensors)))
    assert again[-1].result[0].fingerprint == events[-1].result[0].fingerprint


@pytest.mark.parametrize("name", ON_GENERATORS)
def test_only_editable_parameters_change(name, base, request_):
    for delta in drive(quick(name).run(base, request_))[-1].result:
        assert all(changed.startswith("synthesis.") for changed in delta.tensors)
