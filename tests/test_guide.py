"""What GUIDE promises: a start that already shows the target, losses as in the paper, on every generator."""

import copy
import fnmatch
from collections import Counter

import pytest
import torch

from engine import assets, losses
from engine.core.events import Done, Snapshot, result
from engine.data import LatentBatch, Request
from engine.delta import compose
from engine.generators import architectures
from engine.generators.tiny import Tiny
from engine.identity.targets import choose
from engine.methods import methods
from engine.methods.guide import Draws, Guide
from engine.redirect import Latents
from tests import test_eg3d, test_stylegan2, test_stylegan3

needs = pytest.mark.skipif(
    not all(assets.is_present(name) for name in ("recogniser-a", "lpips-alex")),
    reason="the networks of the losses are not fetched: run 'python app.py assets fetch'",
)
BUILT = {
    "tiny": {"z_dim": 32, "w_dim": 32},
    "stylegan2": test_stylegan2.TINY,
    "stylegan3": test_stylegan3.CONFIGS["sg3t_tiny"],
    "eg3d": test_eg3d.SMALL | {"z_dim": 32, "w_dim": 32},
}


@pytest.fixture(params=BUILT)
def generator(request):
    """One of every kind, with weights of its own."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return architectures[request.param](**BUILT[request.param]).eval().requires_grad_(False)


@pytest.fixture
def base():
    return Tiny(z_dim=32, w_dim=32).eval().requires_grad_(False)


def person(base, *seeds):
    return Request(LatentBatch(base.map(base.sample_z(seeds or [3])), "seeds"), "a person")


def draws_to(base, knobs, targets=None):
    people = person(base).forget.w
    return Draws(knobs, base, Latents.of(base), people, people if targets is None else targets)


def test_without_a_step_the_person_is_shown_as_the_target_on_every_generator(generator):
    request, latents = person(generator), Latents.of(generator)
    deltas = result(Guide(steps=0).run(generator, request))
    student = compose(generator, deltas)
    w_t = choose(generator, latents, request.forget.w[0], "opposite", Guide().distance, torch.Generator())
    shown, wanted = student.synth(request.forget.w), generator.synth(w_t[None])
    moved = (wanted - generator.synth(request.forget.w)).abs().max()
    assert (shown - wanted).abs().max() < 2e-3 * moved


def test_the_card_has_the_words_and_a_fingerprint_of_the_code(base):
    cards = [result(Guide(steps=0).run(base, person(base, seed)))[0].card for seed in (3, 3, 4)]
    assert cards[0].request == "a person" and len(cards[0].codes) == 16
    assert cards[0].codes == cards[1].codes != cards[2].codes


def test_people_to_keep_are_shown_exactly_as_before(base):
    forget, keep = person(base, 3).forget, person(base, 4, 5).forget
    student = compose(base, result(Guide(steps=0).run(base, Request(forget, "a person", keep))))
    torch.testing.assert_close(student.synth(keep.w), base.synth(keep.w), atol=2e-4, rtol=0)
    assert (student.synth(forget.w) - base.synth(forget.w)).abs().mean() > 0.02


def test_a_second_erasure_on_top_leaves_the_first_person_erased(base):
    first, second = person(base, 3), person(base, 4)
    once = compose(base, result(Guide(steps=0).run(base, first)))
    again = Guide(steps=0).run(once, Request(second.forget, "another", first.forget))
    twice = compose(once, result(again))
    torch.testing.assert_close(twice.synth(first.forget.w), once.synth(first.forget.w), atol=2e-4, rtol=0)
    assert (twice.synth(second.forget.w) - once.synth(second.forget.w)).abs().mean() > 0.02


@needs
def test_the_mirror_image_goes_the_same_way_as_its_person_and_nobody_elses_does(base):
    people, mirror = person(base, 3, 4).forget, person(base, 5).forget.w
    extra = {"mirrors": mirror, "mirrored": torch.tensor([1])}
    for reach in (1.0, 1.5, 0.0):
        knobs = Guide(steps=0, reach=reach, drift=1.0)
        first, second = result(knobs.run(base, Request(people, "two", extra=extra)))
        targets = knobs.targets(base, Latents.of(base), people.w)
        wanted = base.synth(mirror + reach * (targets - people.w)[1:])
        shown = compose(base, [second]).synth(mirror)
        assert ((shown - wanted).abs().max() < 2e-3) == (reach > 0)
        assert (shown_alike(base, compose(base, [first]), mirror) < 1e-3) == (reach > 0)


@needs
def test_the_mirror_image_goes_only_as_far_as_random_faces_can_bear(base):
    people, mirror = person(base, 3).forget, person(base, 5).forget.w
    request = Request(people, "one", extra={"mirrors": mirror, "mirrored": torch.tensor([0])})
    faces = base.map(base.sample_z(range(100, 140)))

    def drift(limit):
        student = compose(base, result(Guide(steps=0, reach=4.0, drift=limit).run(base, request)))
        return losses.lpips("alex")(base.synth(faces), student.synth(faces)).mean().item()

    alone, most = drift(0.0), drift(1.0)
    limit = (alone + most) / 2
    assert alone < 0.8 * most
    assert alone < drift(limit) < 1.2 * limit < most


def shown_alike(a, b, codes):
    return (a.synth(codes) - b.synth(codes)).abs().max().item()


def test_people_erased_jointly_have_a_delta_each_and_leaving_one_out_gives_that_person_back(base):
    request = person(base, 3, 4, 5)
    whole = result(Guide(steps=0).run(base, request))
    assert len(whole) == 3 and len({delta.card.codes for delta in whole}) == 3
    targets = Guide(steps=0).targets(base, Latents.of(base), request.forget.w)
    for out in range(3):
        student = compose(base, [delta for number, delta in enumerate(whole) if number != out])
        wanted = targets.clone()
        wanted[out] = request.forget.w[out]
        assert (student.synth(request.forget.w) - base.synth(wanted)).abs().max() < 1e-3


def test_people_erased_in_turn_stay_erased_after_each_step(base):
    request = person(base, 3, 4, 5)
    deltas = result(Guide(steps=0, order="one after another").run(base, request))
    assert len(deltas) == 3
    for count in (1, 2, 3):
        before, after = compose(base, deltas[: count - 1]), compose(base, deltas[:count])
        assert shown_alike(before, after, request.forget.w[: count - 1]) < 1e-3 if count > 1 else True
        assert shown_alike(before, after, request.forget.w[count - 1 : count]) > 0.02


def test_the_card_of_each_names_its_own_person(base):
    w = person(base, 3, 4).forget
    for order in ("jointly", "one after another"):
        deltas = result(Guide(steps=0, order=order).run(base, Request(w, "Ada, Tom", names=("Ada", "Tom"))))
        assert [delta.card.request for delta in deltas] == ["Ada", "Tom"]


@pytest.mark.assets
@needs
def test_a_run_in_turn_that_was_cut_off_goes_on_to_the_same_bytes(base):
    knobs = Guide(steps=2, order="one after another", neighbours=1, others=1, bank=2, snapshot_every=1, lr=1e-3)
    snapshots, whole = [], None
    for event in knobs.run(base, person(base, 3, 4)):
        if isinstance(event, Snapshot):
            snapshots.append(event.tensors)
        elif isinstance(event, Done):
            whole = event.result
    assert len(snapshots) == 2 and len(whole) == 2
    for snapshot in snapshots:
        again = result(knobs.run(base, person(base, 3, 4), snapshot))
        assert [delta.fingerprint for delta in again] == [delta.fingerprint for delta in whole]
        assert [delta.card for delta in again] == [delta.card for delta in whole]


@pytest.mark.assets
@needs
def test_steps_run_unchanged_on_every_generator(generator):
    knobs = Guide(start="base", steps=1, neighbours=1, others=1, bank=0, lr=1e-3)
    (delta,) = result(knobs.run(generator, person(generator)))
    assert delta.tensors
    assert all(any(fnmatch.fnmatch(name, glob) for glob in generator.editable) for name in delta.tensors)


def added(parts):
    """A step's losses by name; what comes of several passes is added up."""
    total = Counter()
    for part in parts:
        total.update({name: loss.item() for name, loss in part.items()})
    return total


@pytest.mark.assets
@needs
def test_identical_weights_lose_nothing_when_the_target_is_the_person(base):
    knobs = Guide(bank=0)
    losses = added(knobs.losses(copy.deepcopy(base), draws_to(base, knobs), torch.Generator().manual_seed(0)))
    assert set(losses) == {"local", "adjacency", "global"}
    assert all(abs(loss) < 1e-6 for loss in losses.values())  # cosine's own rounding


@pytest.mark.assets
@needs
def test_sum_and_mean_agree_up_to_the_number_of_samples(base):
    targets = person(base, 5).forget.w
    parts = {}
    for reduction in ("sum", "mean"):
        knobs = Guide(reduction=reduction, neighbours=3, others=5, bank=0)
        changed = Tiny(seed=1, z_dim=32, w_dim=32).eval()
        random = torch.Generator().manual_seed(0)
        parts[reduction] = added(knobs.losses(changed, draws_to(base, knobs, targets), random))
    total, mean = parts["sum"], parts["mean"]
    assert total["adjacency"] == pytest.approx(3 * mean["adjacency"], rel=1e-5)
    assert total["global"] == pytest.approx(5 * mean["global"], rel=1e-5)
    assert total["local"] == pytest.approx(mean["local"], rel=1e-5)


@pytest.mark.assets
@needs
def test_a_step_loses_the_same_however_many_codes_are_gone_through_at_once(base):
    knobs, targets, found = Guide(neighbours=3, others=5, bank=0), person(base, 5).forget.w, []
    for together in (1, 2, 9):
        changed = Tiny(seed=1, z_dim=32, w_dim=32).eval()
        changed.together = together
        parts = list(knobs.losses(changed, draws_to(base, knobs, targets), torch.Generator().manual_seed(0)))
        assert len(parts) == -(-4 // together) + -(-5 // together)
        found.append(added(parts))
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-5)


@pytest.mark.assets
@needs
def test_a_bank_changes_the_cost_of_the_frozen_side_not_its_views(base):
    knobs = Guide(bank=4)
    draws = draws_to(base, knobs)
    keys, _, there = draws.step(torch.Generator().manual_seed(0))
    first, again = (draws.frozen.views(keys, there) for _ in range(2))
    anew = draws.eye.look(base, there)
    assert torch.equal(first.features, again.features)
    torch.testing.assert_close(first.features, anew.features, atol=1e-5, rtol=0)
    assert draws.frozen.count == len(set(keys))


@pytest.mark.assets
@needs
def test_random_faces_stay_out_of_the_adjacency(base):
    draws = draws_to(base, Guide(spread=0.8, bank=0))
    codes = draws.others(64, torch.Generator().manual_seed(0))
    assert not draws.within(codes).any()


def test_every_preset_is_within_the_bounds_of_its_knobs():
    for values in methods["guide"].presets.values():
        methods["guide"](**values)
