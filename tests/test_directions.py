"""Directions found from labels: they land where they must, and say what they do not know."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.directions import Labelled, Space, edit, find, find_all, sight, survey
from engine.directions.active import Probe, is_enough, odd_labels, smart_pages, sure_guesses, useful_first
from engine.directions.direction import Direction
from engine.directions.find import THRESHOLDS, thresholds, warnings
from engine.directions.fits import (
    area_under_curve,
    expected_cosine,
    held_out_scores,
    logistic,
    mean_difference,
)
from engine.directions.regression import logistic_regression
from engine.directions.sight import Album, Sight
from engine.generators.tiny import Tiny

D = 24


def cloud(n=4000, seed=0, dimension=D):
    """Codes of unequal spread around a point that is not zero, as in W."""
    random = torch.Generator().manual_seed(seed)
    mix = torch.randn(dimension, dimension, generator=random) * torch.arange(1, dimension + 1).float().rsqrt()
    return torch.randn(n, dimension, generator=random) @ mix.T + torch.randn(dimension, generator=random)


@pytest.fixture(scope="module")
def space():
    return Space.of(cloud())


def axis(index, dimension=D):
    return torch.nn.functional.one_hot(torch.tensor(index), dimension).float()


def label(codes, truth_direction, share=0.2, name="glasses", chosen=None):
    s = codes @ truth_direction.to(codes)
    has = s >= torch.quantile(s, 1 - share)
    return Labelled.of(name, codes[has], codes[~has], chosen)


def rows(codes, count=3):
    return codes[:, None].expand(-1, count, -1).clone()


def manual(length, centre=None, gate=0.5, land=-0.25):
    raw = torch.arange(1.0, D + 1)
    raw = raw / raw.norm() * length
    score = raw / raw.norm()
    return Direction("x", score, score, torch.zeros(D) if centre is None else centre, gate, land, 1.0, 0.9, 0.9)


@pytest.mark.parametrize("length", [0.1, 1, 4, 20])
@pytest.mark.parametrize("protected", [0, 1, 2])
@pytest.mark.parametrize("shape", ["ball", "cloud"])
@pytest.mark.parametrize("exact", [True, False])
def test_every_flagged_code_lands_and_every_other_comes_back_bit_for_bit(length, protected, shape, exact):
    """In double precision to 1e-5 whatever the length; single precision has an error that grows with it."""
    random = torch.Generator().manual_seed(3)
    codes = torch.randn(3000, D, generator=random) if shape == "ball" else cloud()
    codes = codes.double() if exact else codes
    labels = label(codes[:300], axis(0) + axis(3))
    codes = codes * length / (labels.having.mean(0) - labels.lacking.mean(0)).norm()  # so that |z_e| is as asked
    space = Space.of(codes, ball=shape == "ball")
    labels = label(codes[:300], axis(0) + axis(3))
    assert mean_difference(labels, space).norm() == pytest.approx(length, rel=1e-4)
    keep = [label(codes[:300], axis(5 + k), name=f"kept {k}") for k in range(protected)]
    for fit in ("mean", "logistic"):
        (direction,) = find_all([labels], keep, space, fit=fit, recall=0.6)
        w = rows(codes)
        moved, flagged = edit(w, [direction])
        assert flagged.any() and not flagged.all()
        near = 1e-5 if exact else 1e-5 * max(1, length)
        assert (direction.scores(moved[flagged, 0]) - direction.land).abs().max() <= near
        assert torch.equal(moved[~flagged], w[~flagged])
        assert torch.equal(moved[:, 0] - w[:, 0], moved[:, 2] - w[:, 2])


def test_a_negative_score_is_handled_by_its_sign():
    direction = manual(1.0, gate=-2.0, land=-3.0)
    w = rows(torch.stack([-1.0 * direction.score, -2.5 * direction.score]))
    moved, flagged = edit(w, [direction])
    assert flagged.tolist() == [True, False]
    assert direction.scores(moved[:, 0]).tolist() == pytest.approx([-3.0, -2.5], abs=1e-5)


def test_the_printed_formula_misses_the_plane_as_predicted():
    codes = torch.randn(2000, D, generator=torch.Generator().manual_seed(0))
    space = Space.of(codes, ball=True)
    labels = label(codes[:500], axis(0), share=0.1)
    length = mean_difference(labels, space).norm().item()
    direction = find(labels, space, fit="mean", threshold="pooled", move="printed")
    w = rows(codes)
    moved, flagged = edit(w, [direction])
    s, t = direction.scores(codes[flagged]), direction.land
    assert torch.allclose(direction.scores(moved[flagged, 0]), t - (length - 1) * (s - t), atol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_protected_attributes_do_not_move_and_the_score_moves_by_one(count):
    space = Space.of(cloud().double())
    labels = label(space.codes[:400], axis(0) + 0.5 * axis(1))
    keep = [label(space.codes[:400], axis(1 + k) + 0.3 * axis(0), name=f"k{k}") for k in range(count)]
    (direction,) = find_all([labels], keep, space)
    for attribute in keep:
        kept = find(attribute, space).score
        assert kept.norm().item() == pytest.approx(1) and abs(kept @ direction.shift) <= 1e-6
    assert (direction.score @ direction.shift).item() == pytest.approx(1, abs=1e-6)


def test_features_that_cannot_be_told_apart_are_refused(space):
    labels = label(space.codes[:400], axis(0))
    with pytest.raises(UserError, match="point the same way"):
        find_all([labels], [label(space.codes[:400], axis(0) + 0.02 * axis(1), name="twin")], space)


def test_several_features_are_erased_together_without_touching_each_other(space):
    features = [label(space.codes[:400], axis(k), name=f"f{k}") for k in (0, 4)]
    found = find_all(features, [], space)
    w = rows(space.codes[:1000])
    moved, _ = edit(w, found)
    for one in found:
        flagged = one.scores(w[:, 0]) >= one.gate
        assert flagged.any()
        assert (one.scores(moved[flagged, 0]) - one.land).abs().max() <= 1e-4
        assert (one.scores(moved[~flagged, 0]) - one.scores(w[~flagged, 0])).abs().max() <= 1e-4


def with_chosen(plain, codes):
    """The same labels and sixty actively chosen ones, which crowd beside the boundary."""
    hard = codes[400:600]
    hard = hard[(hard @ axis(0) - torch.quantile(codes @ axis(0), 0.8)).abs().argsort()[:60]]
    chosen = torch.cat(
        [torch.zeros(len(plain.having)), torch.ones(30), torch.zeros(len(plain.lacking)), torch.ones(30)]
    )
    return Labelled.of(
        "glasses", torch.cat([plain.having, hard[:30]]), torch.cat([plain.lacking, hard[30:]]), chosen.bool()
    )


def test_the_probes_gate_and_what_it_calls_clear_never_see_actively_chosen_samples(space, monkeypatch):
    plain = label(space.codes[:400], axis(0))
    mixed = with_chosen(plain, space.codes)
    monkeypatch.setattr(sight, "logistic_regression", lambda *_: (axis(0), 0.0))  # fixed

    def gate(labels):
        found = Sight.fit(labels, space.codes, 0.95)
        return found.gate, found.clear, found.auc

    assert gate(mixed) == gate(plain)
    assert gate(Labelled.of("glasses", mixed.having, mixed.lacking)) != gate(plain), "they would have moved it"


def test_chosen_samples_teach_the_probe_that_random_ones_are_scored_by(space):
    few, many = label(space.codes[:80], axis(0)), label(space.codes[80:480], axis(0))
    chosen = [torch.zeros(len(few.having)), torch.ones(len(many.having))]
    chosen += [torch.zeros(len(few.lacking)), torch.ones(len(many.lacking))]
    both = torch.cat([few.having, many.having]), torch.cat([few.lacking, many.lacking])
    alone, taught = (
        Sight.fit(labels, space.codes, 0.95) for labels in (few, Labelled.of("glasses", *both, torch.cat(chosen)))
    )
    assert taught.auc > alone.auc + 0.02


def test_what_is_only_kept_is_found_the_same_without_holding_samples_out(space):
    labels = label(space.codes[:400], axis(0))
    seen, kept = (Sight.fit(labels, space.codes, recall) for recall in (0.95, None))
    assert torch.equal(kept.weight, seen.weight) and kept.gate == 0 and math.isnan(kept.auc)
    tested, plain = (find(labels, space, tested=tested) for tested in (True, False))
    assert torch.equal(plain.score, tested.score) and torch.equal(plain.shift, tested.shift) and math.isnan(plain.auc)


def test_thresholds_never_see_actively_chosen_samples(space):
    plain = label(space.codes[:400], axis(0))
    mixed = with_chosen(plain, space.codes)
    fixed = logistic(plain, space)
    unit = fixed / fixed.norm()
    for how in THRESHOLDS:
        pairs = [
            thresholds(
                how,
                labels,
                space,
                unit,
                held_out=held_out_scores(labels.random, space, logistic),
                recall=0.9,
                deeper=0.0,
            )
            for labels in (plain, mixed)
        ]
        assert pairs[0] == pairs[1], how


def test_the_gate_catches_most_new_samples_with_the_feature_and_few_others():
    codes = cloud(24_000)
    space, truth = Space.of(codes), axis(0) + axis(3)
    direction = find(label(codes[:400], truth, share=0.1), space)
    fresh = codes[4000:]
    has = fresh @ truth >= torch.quantile(codes @ truth, 0.9)
    flagged = direction.scores(fresh) >= direction.gate
    assert flagged[has].float().mean() > 0.8
    assert flagged[~has].float().mean() < 0.25
    assert direction.land < direction.gate


def test_an_edit_that_leans_with_the_cloud_is_shorter_in_its_metric_and_longer_in_plain_sight(space):
    labels = label(space.codes[:400], axis(0))
    inverse = torch.linalg.inv(space.covariance.double())

    shifts = [find(labels, space, move=move).shift.double() for move in ("covariance", "halfway", "straight")]
    inside, plain = [s @ inverse @ s for s in shifts], [s @ s for s in shifts]
    assert inside[0] < inside[1] < inside[2] and plain[0] > plain[1] > plain[2]


@pytest.mark.parametrize("move", ["covariance", "halfway", "straight"])
def test_what_is_kept_does_not_move_whichever_way_a_sample_goes(space, move):
    erased, kept = (label(space.codes[:400], axis(k) + axis(5), name=name) for k, name in ((0, "x"), (1, "kept")))
    (direction,) = find_all([erased], [kept], space, move=move)
    kept = find(kept, space)
    assert abs(kept.score @ direction.shift) < 1e-4 and abs(direction.score @ direction.shift - 1) < 1e-4


def test_logistic_regression_agrees_with_the_public_package():
    linear_model = pytest.importorskip("sklearn.linear_model")
    x = cloud(300)
    truth = (x @ axis(0) > 0.8).float()
    for samples in (300, 15):  # more and fewer samples than dimensions
        weight, offset = logistic_regression(x[:samples], truth[:samples], penalty=2.0)
        other = linear_model.LogisticRegression(C=0.5, class_weight="balanced", tol=1e-10, max_iter=5000)
        other.fit(x[:samples].double().numpy(), truth[:samples].numpy())
        assert torch.allclose(weight, torch.tensor(other.coef_[0]).float(), atol=2e-4)
        assert offset == pytest.approx(other.intercept_[0], abs=2e-3)


def test_a_regression_on_fewer_samples_than_numbers_bears_a_sample_twice_and_rounded_products():
    x = torch.randn(40, 200, generator=torch.Generator().manual_seed(0))
    x, truth = torch.cat([x, x[:8]]), (x[:, 0] > 0).float()[torch.arange(48) % 40]
    weight, offset = logistic_regression(x, truth, penalty=25.0)
    rough = logistic_regression(x, truth, 25.0, x @ x.T)
    assert torch.allclose(rough[0], weight, atol=1e-5) and rough[1] == pytest.approx(offset, abs=1e-5)
    balance = torch.where(truth > 0, 24 / truth.sum(), 24 / (1 - truth).sum())
    slope = x.T @ (balance * (torch.sigmoid(x @ weight + offset) - truth)) + 25 * weight
    assert slope.abs().max() < 1e-3, "the loss is at its least"


def test_probes_from_one_album_are_those_that_are_fitted_alone(space):
    several = [label(space.codes[:400], axis(k), name=str(k)) for k in (0, 1)]
    looks, where = torch.unique(torch.cat([one.codes for one in several]), dim=0, return_inverse=True)
    album = Album(looks, space.codes)
    for one, places in zip(several, where.split(400), strict=True):
        alone, shared = Sight.fit(one, space.codes, 0.95), Sight.learnt(one, places, album, 0.95).over(space.codes)
        assert torch.allclose(alone.weight, shared.weight, atol=1e-5)
        assert [shared.gate, shared.clear, shared.auc] == pytest.approx([alone.gate, alone.clear, alone.auc], abs=1e-4)


def test_who_resembles_a_feature_by_what_else_they_show_can_still_be_clear_of_it():
    looks = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))
    common = {"mean": torch.zeros(2), "std": torch.ones(2), "auc": 1.0}
    male = Sight("male", torch.tensor([1.0, 0.0]), 0.3, gate=0.0, clear=-0.5, **common)
    beard = Sight("beard", torch.tensor([0.8, 0.6]), -0.1, gate=1.0, clear=-0.5, **common)
    beside = beard.beside([male], looks)
    man, woman = torch.tensor([[1.0, -1.0]]), torch.tensor([[-1.0, 2.0]])  # both score 0.1 and 0.3, neither is flagged
    assert not beard.is_clear(man) and not beard.is_clear(woman)
    assert beside.is_clear(man) and not beside.is_clear(woman), "a man scores more without a beard, a woman less"
    levels = beside.level(looks)
    assert levels.min() >= beard.clear and levels.max() < beard.gate and levels.std() > 0.1
    assert not (beside.flags(looks) & beside.is_clear(looks)).any()
    assert torch.equal(beside.is_clear(looks) | ~beard.is_clear(looks), torch.ones(2000, dtype=torch.bool))
    assert beard.beside([], looks) == beard, "nothing is kept, so nothing is usual"


@given(st.integers(5, 200), st.integers(5, 200))
@settings(max_examples=20, deadline=None)
def test_the_area_under_the_curve_is_the_share_of_won_pairs(p, n):
    random = torch.Generator().manual_seed(p * 1000 + n)
    scores = torch.randint(0, 5, (p + n,), generator=random).float()
    truth = torch.cat([torch.ones(p), torch.zeros(n)])
    won = sum((a > b) + 0.5 * (a == b) for a in scores[:p].tolist() for b in scores[p:].tolist())
    assert area_under_curve(scores, truth) == pytest.approx(won / (p * n))


def test_the_expected_cosine_is_that_of_the_spec():
    assert expected_cosine(50, 450, 100) == pytest.approx(0.80, abs=0.01)
    assert expected_cosine(50, 450, 512) == pytest.approx(0.50, abs=0.01)


def test_too_few_random_labels_are_refused_in_words(space):
    codes = space.codes
    with pytest.raises(UserError, match="label 4 more with and 2 more without"):
        Labelled.of("hat", codes[:6], codes[6:14]).check()
    with pytest.raises(UserError, match="label 3 more with"):
        chosen = torch.tensor([True] * 8 + [False] * 37)
        Labelled.of("hat", codes[:15], codes[15:45], chosen).check()
    with pytest.raises(UserError, match="all labels say “with”"):
        Labelled.of("hat", codes[:15], codes[:0]).check()


def test_labels_without_a_pattern_are_warned_about(space):
    random = torch.Generator().manual_seed(1)
    mixed = space.codes[torch.randperm(200, generator=random)]
    direction = find(Labelled.of("noise", mixed[:40], mixed[40:]), space)
    said = " ".join(warnings(direction, 0.6))
    assert "do not separate" in said and "60 % of all samples" in said
    good = find(label(space.codes[:400], axis(0)), space)
    assert not any("separate" in sentence for sentence in warnings(good, 0.2))


def test_only_coarse_coordinates_are_searched_and_moved():
    codes = torch.randn(2000, D, generator=torch.Generator().manual_seed(0))
    space = Space.of(codes, 10, ball=True)
    for fit in ("mean", "logistic"):
        direction = find(label(codes[:300], axis(2)), space, fit=fit)
        assert direction.score[10:].abs().max() == 0 == direction.shift[10:].abs().max()


def test_a_survey_draws_enough_codes_and_a_z_only_model_is_a_ball():
    model = Tiny()
    space = survey(model, n=1200)
    assert space.codes.shape == (1200, 8) and space.covariance.ndim == 2
    model.latent = "z"
    assert survey(model, n=600).covariance.ndim == 0


def test_the_probe_learns_orders_and_points_at_wrong_labels(space):
    truth = axis(0) + axis(2)
    labels = label(space.codes[:300], truth)
    probe = Probe.fit(labels, space)
    pool = space.codes[300:800]
    assert area_under_curve(probe.guess(pool), (pool @ truth >= torch.quantile(pool @ truth, 0.8)).float()) > 0.9
    order = useful_first(probe, pool)
    certainty = (probe.guess(pool) - 0.5).abs()
    assert certainty[order[0]] <= certainty[order[-1]]
    assert all(probe.guess(pool)[i].round() == answer for i, answer in sure_guesses(probe, pool).items())
    surest = (labels.lacking @ truth).argmin()  # call the clearest sample without the feature one with it
    wrong = Labelled.of("x", torch.cat([labels.having, labels.lacking[surest][None]]), labels.lacking)
    assert len(labels.having) in odd_labels(wrong, space)[:3]


def test_every_smart_page_has_random_samples_and_none_is_shown_twice(space):
    probe = Probe.fit(label(space.codes[:300], axis(0)), space)
    pool = space.codes[300:800]
    shown = smart_pages(probe, pool, 60, seed=4)
    assert len({index for index, _ in shown}) == len(shown) == 60
    assert all(sum(not chosen for _, chosen in shown[k : k + 10]) == 2 for k in range(0, 60, 10))
    assert shown == smart_pages(probe, pool, 60, seed=4)
    guesses = probe.guess(pool)
    picked = guesses[[index for index, chosen in shown if chosen]]
    assert picked.mean() > guesses.mean() + 0.2


def test_which_samples_are_random_does_not_depend_on_the_probe(space):
    pool = space.codes[300:800]
    drawn = []
    for truth in (axis(0), axis(1)):
        shown = smart_pages(Probe.fit(label(space.codes[:300], truth), space), pool, 60, seed=4)
        drawn.append({index for index, chosen in shown if not chosen})
    assert drawn[0] == drawn[1] and len(drawn[0]) == 12


def test_enough_is_a_good_and_steady_score():
    assert is_enough([0.8, 0.93, 0.932, 0.935, 0.934])
    assert not is_enough([0.8, 0.93, 0.95, 0.935, 0.934])
    assert not is_enough([0.8, 0.81, 0.81, 0.81, 0.81]) and not is_enough([])
    assert not is_enough([math.nan])


@pytest.mark.parametrize("side", [2, 4, 5])
def test_a_map_of_any_number_type_is_averaged_in_single_precision(side):
    random = torch.Generator().manual_seed(0)
    x = torch.randn(3, 8, 8, 5, generator=random).bfloat16().permute(0, 3, 1, 2)
    plain = torch.nn.functional.adaptive_avg_pool2d
    found = []
    for way in (sight.averaged, lambda x, side: plain(x.float(), side)):
        moved = x.clone().requires_grad_(True)
        y = way(moved, side)
        y.square().sum().backward()
        found.append((y.detach(), moved.grad.float()))
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1], rtol=0.01, atol=1e-4)  # bfloat16 has 8 bits
