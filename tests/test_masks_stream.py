"""SupSup without task names: it opens a mask for what is new and returns to the old one for what is not."""

import pytest
import torch

from engine.core.errors import UserError
from engine.core.events import result
from engine.masks.net import MaskedNet
from engine.masks.plan import mlp
from engine.masks.splits import splits
from engine.masks.stream import learn_stream
from tests.tiny_tasks import begin, learn

CLASSES = tuple("0123456789")


def stream(tasks, order, length):
    random = torch.Generator().manual_seed(0)
    for number in order:
        images = tasks[number].train
        for _ in range(length):
            rows = torch.randint(len(images), (64,), generator=random)
            yield images.x[rows], images.y[rows]


def test_a_stream_of_tasks_gets_one_mask_each_and_finds_the_first_again():
    tasks = splits["permuted-digits"].load()
    net = result(MaskedNet.begin("supsup", {}, mlp((1, 8, 8)), 0))
    found = result(learn_stream(net, stream(tasks, (0, 1, 0), 200), CLASSES, check_every=100))
    assert found.history == (0,) * 200 + (1,) * 200 + (0,) * 200
    for number in (0, 1):
        images = tasks[number].test
        assert found.net.accuracy(number, images.x, images.y) > 0.9
        assert found.net.predict(images.x[:128]).task == number
    assert not net.state.tasks


def test_a_stopped_stream_keeps_what_it_found():
    tasks = splits["permuted-digits"].load()
    net = result(MaskedNet.begin("supsup", {}, mlp((1, 8, 8), (20, 10)), 0))
    task = learn_stream(net, stream(tasks, (0,), 50), CLASSES, check_every=10)
    next(task)
    found = task.send(True).result
    assert set(found.net.state.tasks) == {0}
    assert found.history == ()


def test_only_a_fresh_supsup_without_norms_can_take_a_stream():
    with pytest.raises(UserError, match="PackNet cannot tell tasks apart by itself; use supsup"):
        learn_stream(begin("packnet"), (), CLASSES)
    with pytest.raises(UserError, match="fresh network without normalisation"):
        learn_stream(begin("supsup", "cnn"), (), CLASSES)
    used = begin("supsup")
    learn(used, 0)
    with pytest.raises(UserError, match="fresh network"):
        learn_stream(used, (), CLASSES)
