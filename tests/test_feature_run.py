"""A feature run as somebody watches it: pictures at once, an end when asked, an end when it is good enough."""

import numpy as np
import pytest
import torch

from engine.core.errors import Stopped
from engine.core.events import Done, Progress, result
from engine.core.joblog import State
from engine.delta import compose
from engine.directions.find import unprotected
from engine.generators.dcgan import Dcgan
from engine.methods.feature import LEFT, Feature
from engine.requests import labelled_codes
from tests.audit_aims import red, tiny

QUICK = {"samples": 60, "check_every": 1, "batch": 4}


@pytest.fixture(scope="module")
def base():
    return tiny()


def asked(base):
    return labelled_codes(base, red(base))


def test_the_first_event_already_shows_labelled_samples_before_and_now(base):
    first = next(Feature(steps=2, **QUICK).run(base, asked(base)))
    assert len(first.images) == 12 and first.note
    for name in ("with-1", "with-4", "without-2"):
        assert np.array_equal(first.images[f"before-{name}"], first.images[f"after-{name}"]), "nothing is trained yet"


def notes_until_stop(base, said, snapshot=None):
    """Runs until a note begins so, then asks to stop and keep; gives what came after."""
    run = Feature(steps=3, **QUICK).run(base, asked(base), snapshot)
    while not next(run).note.startswith(said):
        pass
    return run.send(True)


@pytest.mark.parametrize(
    "said", ["looking at random samples", "looking at the labelled samples", "finding what to show instead"]
)
def test_stop_and_keep_is_heard_while_the_feature_is_being_found(base, said):
    with pytest.raises(Stopped, match=f"stopped while {said}: .* nothing to keep"):
        notes_until_stop(base, said)


def test_a_resumed_run_that_is_stopped_while_it_looks_keeps_what_it_had_learnt(base):
    events = list(Feature(steps=3, snapshot_every=2, **QUICK).run(base, asked(base)))
    snapshot = next(event for event in events if not isinstance(event, (Progress, Done)))
    done = notes_until_stop(base, "looking at random samples", snapshot.tensors)
    (delta,) = done.result
    w = base.map(base.sample_z(range(3)))
    assert delta.card.scalars["steps_done"] == 2
    assert not torch.equal(compose(base, [delta]).synth(w), base.synth(w))


def test_a_run_stopped_before_its_first_step_has_not_failed_and_says_why_nothing_is_kept(studio, monkeypatch):
    monkeypatch.setattr("engine.methods.feature.FIRST_LOOK", 20_000)  # a look that takes longer than a line in the log
    job = studio.forget("tiny", red(tiny()), "feature", {"samples": 20_000})
    for _, data in studio.follow(job):
        if data.get("note", "").startswith("looking at random samples"):
            studio.stop(job, keep=True)
            break
    row = studio.wait(job)
    assert row.state is State.STOPPED and row.result is None
    assert "nothing to keep" in row.error


# Good enough


def test_a_run_settles_and_ends_when_three_checks_in_a_row_find_no_more_left_than_the_goal(base, monkeypatch):
    monkeypatch.setattr("engine.methods.feature.SETTLE", 4)
    method = Feature(steps=60, goal=8.0, lr=3e-3, **QUICK | {"batch": 8, "check_every": 2})
    events = [event for event in method.run(base, asked(base)) if isinstance(event, Progress) and event.step]
    checks = [(event.step, event.scalars[LEFT]) for event in events if event.images]
    met = next(k for k in range(2, len(checks)) if max(left for _, left in checks[k - 2 : k + 1]) <= 8)
    assert checks[-1][0] == events[-1].step == checks[met][0] + 4 < 60, checks


def test_a_run_that_never_meets_its_goal_takes_all_its_steps(base):
    *_, last, _ = Feature(steps=6, goal=0.0, **QUICK).run(base, asked(base))
    assert last.step == 6 and last.scalars[LEFT] > 0


def test_a_feature_that_few_samples_show_must_go_as_far_as_one_that_many_do(base, monkeypatch):
    """A goal of 2 % would be met before the first step by a feature that 1 % of the samples show."""
    monkeypatch.setattr("engine.methods.feature.SETTLE", 2)
    monkeypatch.setattr("engine.directions.study.Study.share", 0.01)
    steps = [
        event
        for event in Feature(steps=30, goal=2.0, lr=1e-6, **QUICK).run(base, asked(base))
        if isinstance(event, Progress) and event.step
    ]
    assert steps[-1].scalars[LEFT] > 0.5 and steps[-1].step == 30, "nothing was learnt, so nothing was met"


def test_the_first_steps_are_taught_on_few_samples_and_the_others_on_all(base, monkeypatch):
    monkeypatch.setattr("engine.methods.feature.FIRST_LOOK", 40)
    monkeypatch.setattr("engine.methods.feature.FIRST_STEPS", 2)
    events = list(Feature(steps=4, snapshot_every=2, **QUICK).run(base, asked(base)))
    looks = [(event.step, event.note) for event in events if getattr(event, "note", "").startswith("looking at")]
    assert looks[0][0] == 0 and "of 40" in looks[0][1]
    assert [note for step, note in looks if step == 2][-1] == "looking at more random samples: 20 of 20"
    snapshot = next(event for event in events if not isinstance(event, (Progress, Done)))
    *_, again = Feature(steps=4, snapshot_every=2, **QUICK).run(base, asked(base), snapshot.tensors)
    w = base.map(base.sample_z(range(3)))
    ends = [compose(base, done.result).synth(w) for done in (events[-1], again)]
    assert torch.equal(*ends), "a resumed run meets the same lessons"


def test_a_goal_that_few_samples_meet_does_not_end_a_run_that_has_yet_to_look_at_all(base, monkeypatch):
    for name, value in {"FIRST_LOOK": 40, "FIRST_STEPS": 3, "SETTLE": 2}.items():
        monkeypatch.setattr(f"engine.methods.feature.{name}", value)
    few = []

    def check(self, student):
        few.append(len(few) < 4)  # before the first step and after each of three
        return {LEFT: 0.0 if few[-1] else 30.0}

    monkeypatch.setattr("engine.methods.feature.Watcher.check", check)
    *_, last, _ = Feature(steps=9, **QUICK).run(base, asked(base))
    assert last.step == 9 and last.scalars[LEFT] == 30


def weights(base, monkeypatch, snapshot=None, **knobs):
    """The weight of forgetting at every step, and the events of the run."""
    seen, step = [], Feature.step

    def noted(self, *given):
        seen.append(self.alpha)
        return step(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Feature, "step", noted)
        return seen, list(Feature(**{"steps": 6} | QUICK | knobs).run(base, asked(base), snapshot))


def test_forgetting_weighs_more_while_too_much_is_left_and_less_again_when_it_is_not(base, monkeypatch):
    missed, met = (weights(base, monkeypatch, goal=goal, lr=1e-6, firmer=1.03)[0] for goal in (0.0, 50.0))
    assert missed == pytest.approx([2 * factor for factor in (1, 1.01, 1.01**2, 1.03, 1.03, 1.03)])
    assert met == pytest.approx([2 / factor for factor in (1, 1.01, 1.01**2, 1.03, 1.03, 1.03)])


def test_a_run_of_the_printed_recipe_weighs_forgetting_alike_from_first_to_last(base, monkeypatch):
    knobs = Feature.presets["As published"] | {"steps": 6}
    assert weights(base, monkeypatch, goal=0.0, **knobs)[0] == [1.0] * 6


def test_a_resumed_run_weighs_forgetting_as_it_did(base, monkeypatch):
    whole, events = weights(base, monkeypatch, goal=0.0, snapshot_every=3)
    snapshot = next(event for event in events if not isinstance(event, (Progress, Done)))
    assert weights(base, monkeypatch, snapshot.tensors, goal=0.0, snapshot_every=3)[0] == whole[3:]


# Where there is only z


@pytest.fixture(scope="module")
def dcgan():
    """Random weights, of enough contrast; without a bias its pictures of z and -z would be too much alike."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Dcgan(z_dim=8, channels=(16, 8, 8)).eval().requires_grad_(False)
    for layer in model.main:
        if isinstance(layer, torch.nn.ConvTranspose2d):
            layer.weight.mul_(3)
    model.main[1].bias.fill_(0.5)
    return model


def test_a_model_that_has_only_z_forgets_a_feature_and_warns_that_nothing_is_protected(dcgan):
    request = labelled_codes(dcgan, red(dcgan))
    method = Feature(steps=40, samples=100, lr=1e-2, checked=16)
    deltas = result(method.run(dcgan, request))

    def redness(model, codes):
        picture = model.synth(codes)
        return (picture[:, 0] - picture[:, 2]).mean()

    had, lacked = (redness(dcgan, part.w) for part in (request.forget, request.retain))
    assert redness(compose(dcgan, deltas), request.forget.w) < had - 0.3 * (had - lacked)
    verdict = result(method.check(dcgan, deltas, request))
    (caveat,) = verdict["caveats"]
    assert caveat.startswith("Nothing is protected") and "“red”" in caveat and verdict["words"][-1] == caveat


def test_nothing_is_warned_of_where_something_is_protected_or_there_is_a_w(base):
    assert unprotected("z", "red", ["bright"]) == unprotected("w", "red", []) == []
    assert unprotected("z", "red", [])


def test_the_preview_of_a_model_that_has_only_z_warns_too(studio, base, monkeypatch):
    monkeypatch.setattr(type(base), "latent", "z")
    *_, seen = studio.preview_feature("tiny", red(base))
    assert any(sentence.startswith("Nothing is protected") for sentence in seen.warnings)
