"""What a student lost of protected attributes is given back at the end, and nothing else is done."""

import copy
from dataclasses import replace

import pytest
import torch

from engine.core.targets import Labels
from engine.directions import balance
from engine.directions.balance import balanced, imbalance
from engine.directions.sight import Eye
from engine.directions.study import Search, study
from engine.generators.tiny import Tiny
from engine.redirect import deciding, fold
from engine.requests import labelled_codes

SEEDS = range(160)


def ended(task, answers=()):
    """What a task gives in the end; it is told `answers` one after another, and then nothing."""
    answers, said = iter(answers), None
    while True:
        try:
            task.send(said)
        except StopIteration as end:
            return end.value
        said = next(answers, None)


def amounts(model, codes):
    """Of the feature, red, and of what is to be kept, brightness."""
    picture = model.synth(codes)
    return (picture[:, 0] - picture[:, 2]).mean((1, 2)), picture.mean((1, 2, 3))


@pytest.fixture(scope="module")
def tiny():
    return Tiny().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def found(tiny):
    sides = []
    for level in amounts(tiny, tiny.map(tiny.sample_z(SEEDS))):
        has = level >= torch.quantile(level, 0.7)
        sides.append([[seed for seed in SEEDS if bool(has[seed]) == side] for side in (True, False)])
    bright = Labels("bright", *sides[1])
    target = Labels("red", *sides[0], keep=(bright,))
    return ended(study(tiny, labelled_codes(tiny, target), Search(samples=400), Eye(8)))


def led_astray(tiny, found, by):
    """Nobody is red any more, but all show less of what is to be kept, those who were redder still less."""
    student, kept, red = copy.deepcopy(tiny), found.keepers[0].direction, found.directions[0]
    moves = torch.stack([-red.sigma * red.shift, -by * kept.sigma * kept.shift])
    slopes = torch.stack([0 * red.score, red.score / red.sigma])
    for layer, _ in deciding(student):
        fold(layer, moves, slopes, torch.tensor([2.0, 1.0]) - slopes @ found.space.centre)
    return student


@pytest.mark.parametrize("by", [0.5, 0.8])
def test_what_was_lost_of_an_attribute_is_given_back(tiny, found, by):
    student = led_astray(tiny, found, by)
    kept = copy.deepcopy(student.state_dict())
    restored = ended(balanced(student, found, Eye(8), 2))
    codes = tiny.map(tiny.sample_z(range(1000, 1300)))  # not those it looked at
    (_, right), (_, dark), (_, light) = (amounts(model, codes) for model in (tiny, student, restored))
    assert (light - right).mean().abs() < 0.3 * (dark - right).mean().abs()
    assert all(torch.equal(value, kept[name]) for name, value in student.state_dict().items())


def test_how_far_to_go_is_found_by_trying(tiny, found):
    codes, (kept,) = found.pool.codes[:300], found.keepers
    looks = Eye(8).look(tiny, codes).looks
    length = ended(balance.moves_for(tiny, found, Eye(8), looks))
    moved = codes + length * kept.direction.sigma * kept.direction.shift
    gained = -kept.lost(looks, Eye(8).look(tiny, moved).looks).mean()
    assert 0.6 < gained < 1.1  # one standard deviation, less what FAINT takes off


def test_a_student_that_lost_nothing_stays_as_it_is(tiny, found):
    student = copy.deepcopy(tiny)
    assert ended(balanced(student, found, Eye(8), 2)) is student


def test_where_nothing_is_protected_or_nothing_is_asked_for_nobody_looks(tiny, found):
    for study_of, rounds in ((replace(found, keepers=()), 2), (found, 0)):
        with pytest.raises(StopIteration) as end:
            next(balanced(tiny, study_of, Eye(8), rounds))
        assert end.value.value is tiny


def test_what_would_bring_the_feature_back_is_not_done(tiny, found, monkeypatch):
    def give_back_red_as_well(student, found, codes, far):
        red = found.directions[0]
        honest(student, found, codes, far)
        for layer, _ in deciding(student):
            fold(layer, red.sigma * red.shift[None], 0 * red.score[None], torch.full((1,), 2.0))

    honest, student = balance.give_back, led_astray(tiny, found, 0.8)
    monkeypatch.setattr(balance, "give_back", give_back_red_as_well)
    assert ended(balanced(student, found, Eye(8), 2)) is student


def test_a_stop_leaves_what_was_reached(tiny, found):
    student = led_astray(tiny, found, 0.8)
    assert ended(balanced(student, found, Eye(8), 2), [True]) is student


def test_lost_and_gained_weigh_alike_and_each_side_by_its_share():
    lost = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-0.5, 0.0], [-0.5, 1.0]])
    flagged = torch.tensor([True, False, False, False])
    assert imbalance(lost, flagged) == pytest.approx(1 / 4 * 1 + 3 / 4 * (0 + 1 / 3))
    assert imbalance(lost, torch.zeros(4, dtype=torch.bool)) == pytest.approx(0.25 + 0.25)
