"""A feature run as somebody watches it: pictures at once, an end when asked, an end when it is good enough."""

import numpy as np
import pytest
import torch

from engine.core.errors import Stopped
from engine.core.events import Done, Progress
from engine.core.joblog import State
from engine.delta import compose
from engine.methods.feature import Feature
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


def test_a_run_stopped_before_its_first_step_has_not_failed_and_says_why_nothing_is_kept(studio):
    job = studio.forget("tiny", red(tiny()), "feature", {"samples": 20_000})
    for _, data in studio.follow(job):
        if data.get("note", "").startswith("looking at random samples"):
            studio.stop(job, keep=True)
            break
    row = studio.wait(job)
    assert row.state is State.STOPPED and row.result is None
    assert "nothing to keep" in row.error
