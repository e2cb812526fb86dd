"""Classifiers: cut anywhere without changing a bit, rebuilt from their config, seeded."""

import pytest
import torch

from engine.classifiers import classifiers
from engine.classifiers.base import BlockClassifier
from engine.core.errors import UserError
from engine.core.protocols import Classifier
from engine.delta import editable, fingerprint

CLASSES = ("cat", "dog", "owl")
SPLITTABLE = [name for name, cls in classifiers.items() if issubclass(cls, BlockClassifier)]


@pytest.fixture(params=SPLITTABLE)
def network(request):
    small = {"width": 8}  # the full ResNet-18 is slow to build and shows nothing more
    return classifiers[request.param](CLASSES, 3, **small).eval()


def test_shallow_then_deep_equals_the_whole_bit_for_bit_at_every_cut(network):
    x = torch.rand(4, 3, 16, 16)
    whole = network.logits(x)
    assert whole.shape == (4, 3)
    for n in range(1, len(network.blocks)):
        shallow, deep = network.split(n)
        assert torch.equal(deep(shallow(x)), whole)


def test_the_head_on_the_features_gives_the_logits(network):
    x = torch.rand(2, 3, 16, 16)
    assert torch.equal(network.blocks[-1](network.features(x)), network.logits(x))


def test_a_cut_outside_the_network_is_refused(network):
    for n in (0, len(network.blocks), -1):
        with pytest.raises(UserError, match=f"split={n}"):
            network.split(n)


def test_the_config_and_the_state_rebuild_the_network(network):
    assert isinstance(network, Classifier)
    twin = classifiers[network.architecture](**network.config)
    assert fingerprint(twin) == fingerprint(network)  # seeded: even before loading a state
    assert editable(twin) and all(p.requires_grad for p in twin.parameters())


def test_weights_come_from_the_seed_alone(network):
    torch.rand(3)
    again = classifiers[network.architecture](**network.config)
    other = classifiers[network.architecture](**network.config | {"seed": 1})
    assert fingerprint(again) == fingerprint(network) != fingerprint(other)


def test_the_published_network_has_the_published_size():
    network = classifiers["resnet18"](tuple(map(str, range(10))), 3)
    count = lambda module: sum(p.numel() for p in module.parameters())  # noqa: E731
    shallow, _ = network.split(network.stage_cut)
    assert (count(network), count(shallow)) == (11_173_962, 675_392)
