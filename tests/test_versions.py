"""Two versions of a model: kept erasures, a run's result and a run at a step, at the same codes."""

import time

import numpy as np
import pytest

from engine.core.errors import UserError
from engine.core.targets import Seeds
from engine.studio import RUN


def erased(studio, seed=3, **knobs):
    job = studio.forget("tiny", Seeds((seed,)), "ascent", {"steps": 8, **knobs})
    studio.wait(job)
    return job


def test_a_result_that_waits_is_a_version_and_keeping_it_gives_the_same_pictures(studio):
    job = erased(studio)
    assert studio.versions("tiny") == {f"{RUN}{job}": "1 generated sample (a run's result, not kept)"}
    waiting = studio.draw("tiny", [f"{RUN}{job}"], [3, 4])
    (name,) = studio.keep(job)
    assert list(studio.versions("tiny")) == [name]
    assert np.array_equal(waiting, studio.draw("tiny", [name], [3, 4]))
    with pytest.raises(UserError, match="nothing to show"):
        studio.draw("tiny", [f"{RUN}{job}"], [3])


def test_a_run_that_goes_on_is_a_version_at_its_last_snapshot(studio):
    job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 2000, "snapshot_every": 5, "lr": 1e-2})
    while studio.store.snapshot_step(job) is None:
        time.sleep(0.01)
    words = studio.versions("tiny")[f"{RUN}{job}"]
    assert words.startswith("1 generated sample (a run at step ")
    assert (studio.draw("tiny", [f"{RUN}{job}"], [3])[0] != studio.draw("tiny", [], [3])[0]).any()
    studio.stop(job, keep=False)
    studio.wait(job)


def test_another_owner_sees_and_draws_no_run_of_mine(studio):
    job = erased(studio)
    assert studio.versions("tiny", owner="bob") == {}
    with pytest.raises(UserError, match="no run"):
        studio.draw("tiny", [f"{RUN}{job}"], [3], owner="bob")


def test_codes_of_photos_are_drawn_for_their_owner_by_every_version(studio):
    token = studio.generated_portrait(7, "tiny", owner="ann")
    by_photo, by_seed = studio.draw("tiny", [], [token], owner="ann"), studio.draw("tiny", [], [7], psi=1.0)
    assert np.array_equal(by_photo, by_seed)
    with pytest.raises(UserError, match="no longer in memory"):
        studio.draw("tiny", [], [token], owner="bob")


def test_a_version_beside_itself_is_equal_and_an_erasure_is_not(studio):
    same = studio.measure("tiny", [], [], range(4))
    assert same["pairs"] == same["equal"] == 4 and same["pixels"] == (0, 0, 0)
    changed = studio.measure("tiny", [], [f"{RUN}{erased(studio, lr=1e-2)}"], range(4))
    mean, low, high = changed["pixels"]
    assert changed["equal"] < 4 and 0 < low <= mean <= high
