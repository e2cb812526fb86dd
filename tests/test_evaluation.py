"""Measuring a classifier: probes and attacks tell a network that knows from one that does not."""

import json

import numpy as np
import pytest
import torch

from engine.augment import batches, draw, to_float, vary
from engine.classifiers.tiny import Tiny
from engine.core.events import Progress, result
from engine.data import ImageSet
from engine.dreams import dream, rounds
from engine.evaluation.leaks import linear_probe, membership
from engine.evaluation.maps import flat
from engine.evaluation.scores import by_class, confusion
from engine.evaluation.students import Lesson, teach
from engine.fit import Fit, accuracy, logits

CLASSES = ("left", "right", "top", "bottom")


def blobs(count: int, seed: int) -> ImageSet:
    """Noise with one bright half: four classes that a tiny network learns in a second."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 4
    x = torch.randint(0, 120, (count, 1, 8, 8), generator=random)
    halves = torch.zeros(4, 8, 8, dtype=torch.long)
    halves[0, :, :4], halves[1, :, 4:], halves[2, :4], halves[3, 4:] = 80, 80, 80, 80
    return ImageSet((x + halves[y][:, None]).byte(), y, CLASSES)


@pytest.fixture(scope="module")
def trained():
    return result(Fit(epochs=8, batch=32, shift=0, lr=0.1).run(Tiny(CLASSES, 1, width=8), blobs(256, 0), blobs(64, 1)))


def test_training_learns_repeats_with_its_seed_and_leaves_the_start_alone(trained):
    start, quick = Tiny(CLASSES, 1, width=8), Fit(epochs=1, batch=32)
    before = {name: value.clone() for name, value in start.state_dict().items()}
    assert accuracy(trained, blobs(64, 1)) > 0.9 > accuracy(start, blobs(64, 1))
    first, second = (logits(result(quick.run(start, blobs(64, 0), blobs(8, 1))), blobs(16, 2)) for _ in range(2))
    assert torch.equal(first, second)
    assert all(torch.equal(value, before[name]) for name, value in start.state_dict().items())


def test_training_stops_when_asked():
    task = Fit(epochs=50, batch=32).run(Tiny(CLASSES, 1, width=8), blobs(64, 0), blobs(8, 1))
    assert isinstance(next(task), Progress)
    assert hasattr(task.send(True), "result")


def test_an_epoch_shows_every_image_once_and_a_draw_none_twice():
    data = ImageSet(torch.arange(33, dtype=torch.uint8).reshape(33, 1, 1, 1), torch.arange(33))
    random = torch.Generator().manual_seed(0)
    parts = list(batches(data, 16, random))
    assert sorted(torch.cat([y for _, y in parts]).tolist()) == list(range(33)) and min(map(len, parts[-1])) > 1
    assert len(set(draw(data, 20, random)[1].tolist())) == 20
    assert len(draw(data, 100, random)[1]) == 33


def test_shifts_and_mirrors_move_pixels_and_make_none_up():
    x = to_float(blobs(16, 0).x)
    moved = vary(x, torch.Generator().manual_seed(0), shift=2, flip=True)
    assert moved.shape == x.shape and not torch.equal(moved, x)
    assert set(moved.flatten().tolist()) <= set(x.flatten().tolist())
    assert torch.equal(vary(x, torch.Generator()), x)


def test_dreams_are_taken_for_the_wanted_classes_and_stay_images(trained):
    random = torch.Generator().manual_seed(0)
    start, steps = to_float(blobs(32, 3).of((0, 1)).x), []
    dreaming = dream(trained, start, [2, 3], 70, 30, random)
    try:
        while True:
            steps.append(next(dreaming))
    except StopIteration as stop:
        images = stop.value
    assert len(steps) == rounds(70, 30) == 60 and steps[29] < steps[0]
    assert images.shape == (70, 1, 8, 8) and images.min() >= 0 and images.max() <= 1
    wanted = torch.tensor([2, 3]).repeat(35)
    assert (trained.logits(images).argmax(1) == wanted).float().mean() > 0.8
    assert not trained.blocks[0][2]._forward_hooks, "a hook was left behind"


def test_a_linear_probe_finds_what_features_hold(trained):
    train, test = blobs(200, 4), blobs(100, 5)
    assert linear_probe(trained, train, test) > 90
    shuffled = ImageSet(train.x, train.y[torch.randperm(len(train), generator=torch.Generator().manual_seed(0))])
    assert linear_probe(trained, shuffled, test) < 60
    assert linear_probe(trained, train.of((1,)), test.of((1,))) == 100


def test_membership_is_one_for_memorised_samples_and_a_half_for_equal_ones():
    y = torch.zeros(20, dtype=torch.long)
    sure, unsure = torch.tensor([[9.0, 0]]).repeat(20, 1), torch.tensor([[0.0, 1]]).repeat(20, 1)
    assert membership(sure, y, unsure, y) == 1 and membership(unsure, y, sure, y) == 0
    assert membership(sure, y, sure, y) == 0.5


def test_one_map_puts_equal_features_on_equal_points(trained):
    for kind in ("pca", "t-sne"):
        points = flat({"a": trained, "b": trained, "c": Tiny(CLASSES, 1, width=8, seed=5).eval()}, blobs(24, 6), kind)
        assert points["a"].shape == (24, 2) and np.isfinite(points["c"]).all()
        if kind == "pca":
            assert np.allclose(points["a"], points["b"]) and not np.allclose(points["a"], points["c"])


def test_classes_are_counted_each_on_its_own():
    z, y = torch.eye(3)[[0, 1, 1, 0]], torch.tensor([0, 1, 2, 2])
    assert by_class(z, y, 3) == [100, 100, 0]
    assert confusion(z, y, 3) == [[1, 0, 0], [0, 1, 0], [1, 1, 0]]
    json.dumps(confusion(z, y, 3))


@pytest.mark.parametrize("kind", ["logit", "attention"])
@pytest.mark.parametrize("labels", [True, False])
def test_a_student_learns_from_its_teacher(trained, kind, labels):
    fit, blank = Fit(epochs=8, batch=32, shift=0, lr=0.1), Tiny(CLASSES, 1, width=4, seed=3)
    z = result(teach(blank, blobs(256, 7), blobs(64, 8), fit, Lesson(kind, labels), trained))
    assert (z.argmax(1) == blobs(64, 8).y).float().mean() > 0.6


def test_without_labels_a_student_repeats_a_wrong_teacher():
    """The published students saw true labels: that, not the teacher, taught them what the teacher had forgotten."""
    fit, blank = Fit(epochs=8, batch=32, shift=0, lr=0.1), Tiny(CLASSES, 1, width=8, seed=3)
    wrong = Tiny(CLASSES, 1, width=8, seed=9).eval()
    data, test = blobs(256, 7), blobs(64, 8)
    with_labels, without = (
        result(teach(blank, data, test, fit, Lesson("attention", labels), wrong)).argmax(1) for labels in (True, False)
    )
    assert (with_labels == test.y).float().mean() > 0.8
    assert (without == test.y).float().mean() < 0.5
