"""LIRF: what a deposit may read, what it must leave alone, and that a withdrawal answers from the right branch."""

import json
import sys

import pytest
import torch

from engine.augment import to_float
from engine.classifiers.stored import NetworkCard, Stored
from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.core.events import Done, Progress, Snapshot, result
from engine.data import ImageSet, Request
from engine.datasets import Dataset, Splits, datasets
from engine.delta import compose, digest, fingerprint
from engine.deposits import Deposit, check, pack, unpack
from engine.evaluation.scores import Accuracy, average, forgetting, h_mean, restricted
from engine.fit import accuracy, logits
from engine.methods.lirf import LIRF, PRESETS, prune, wrong_labels
from engine.originals import train
from engine.recoverable import answers, class_indices, deposit, report, withdraw
from engine.recovery import RecoverNet

QUICK = {"steps": 8, "snapshot_every": 3, "dreams": 16, "dream_steps": 2}


@pytest.fixture(scope="module")
def splits():
    whole = datasets["digits"].load(size=8)
    return Splits(*(ImageSet(part.x[:600], part.y[:600], whole.classes) for part in
                    (whole.train, whole.validation, whole.test)), whole.classes)  # fmt: skip


@pytest.fixture(scope="module")
def original(splits):
    return result(train("digits", splits))


@pytest.fixture(scope="module")
def quick(original, splits):
    """A deposit of three classes after two short epochs."""
    return result(deposit(original, splits.train.of((0, 1, 2)), LIRF(**QUICK)))


@pytest.fixture(scope="module")
def whole(original, splits):
    """A deposit with the settings that ship."""
    return result(deposit(original, splits.train.of((0, 1, 2)), LIRF(dreams=128)))


# Metrics


def test_the_formulas_give_the_published_values():
    assert forgetting(94.60, 15.00) == pytest.approx(79.60) and forgetting(48.60, 1.18) == pytest.approx(47.42)
    assert h_mean(93.41, 79.60) == pytest.approx(85.95, abs=0.005)
    assert h_mean(51.64, 47.42) == pytest.approx(49.44, abs=0.005) and h_mean(0, 0) == 0
    averages = [(94.56, 97.92), (48.15, 52.73), (50.33, 48.60), (53.21, 55.89)]
    for pair, expected in zip(averages, (95.57, 49.52, 49.81, 54.01), strict=True):
        assert average(Accuracy(*pair), 0.3) == pytest.approx(expected, abs=0.006)


def test_accuracy_counts_samples_and_looks_at_all_classes():
    z = torch.tensor([[9.0, 0, 0], [0, 9, 8], [0, 9, 8], [0, 0, 9]])
    y = torch.tensor([0, 1, 2, 2])
    assert Accuracy.of(z, y, [1]) == Accuracy(pre=pytest.approx(200 / 3), dep=100)
    assert restricted(z, y, [1]) == 100  # the third sample is only lost to the class that leaves


def test_an_original_may_be_found_in_a_report_and_nothing_but_plain_values(original, splits, quick):
    found = result(report(original, quick.target, [quick.deposit], splits))
    json.dumps(found)
    rows = found["table"]
    assert rows["original"]["F"] == 0 and rows["original"]["agreement"] == 100
    assert rows["target"]["Dep"] < rows["original"]["Dep"] and rows["recovered"]["restore error"] > 0
    assert {"original", "target", "recovered"} <= set(found["map"]) and len(found["map"]["target"]) == len(splits.test)
    assert found["bytes"]["deposits"][0]["bytes"] < found["bytes"]["network"] / 4
    assert all(0 <= value <= 1 for value in found["membership"].values())
    without = result(report(None, quick.target, [quick.deposit], splits))
    assert "original" not in without["table"] and "F" not in without["table"]["target"]


# What a deposit reads and what it leaves alone


def test_a_deposit_refuses_anything_but_the_deposit_set(original, splits):
    request = Request(splits.train.of((0, 1)), "two", retain=splits.train.of((5,)))
    with pytest.raises(UserError, match="nothing else"):
        result(LIRF(**QUICK).run(original.network, request))


def test_only_deposit_samples_enter_the_networks_during_a_deposit(original, splits, monkeypatch):
    data, seen = splits.train.of((3, 7)), []
    known = {image.numpy().tobytes() for image in data.x}
    module = sys.modules["engine.methods.lirf"]

    def watched(images, *rest, **more):
        seen.extend(images.x)
        return draw(images, *rest, **more)

    draw = module.draw
    monkeypatch.setattr(module, "draw", watched)
    monkeypatch.setattr(module, "to_float", lambda x: seen.extend(x) or to_float(x))
    monkeypatch.setattr(Dataset, "load", None)  # no data set can be opened
    result(deposit(original, data, LIRF(**QUICK)))
    assert seen and {image.numpy().tobytes() for image in seen} <= known


def test_a_withdrawal_opens_no_data_set_and_needs_no_original(quick, monkeypatch, tmp_path):
    quick.target.save(tmp_path / "target.safetensors")
    quick.deposit.save(tmp_path / "deposit.safetensors")
    monkeypatch.setattr(Dataset, "load", None)
    monkeypatch.setattr(ImageSet, "__init__", None)
    target, kept = Stored.load(tmp_path / "target.safetensors"), Deposit.load(tmp_path / "deposit.safetensors")
    restored = result(withdraw(target, [kept]))
    x = torch.rand(3, 1, 8, 8)
    direct = RecoverNet(quick.target.network, [quick.deposit.delta])
    assert torch.equal(restored.logits(x), direct.logits(x))


def test_the_target_before_any_step_equals_the_original(original, splits):
    task = LIRF(**QUICK, prune=0).run(original.network, Request(splits.train.of((0,)), "zero"))
    next(task)
    with pytest.raises(StopIteration):  # stop and keep before the first training step
        while True:
            event = task.send(True)
    forget, recover = event.result
    x = to_float(splits.test.x[:8])
    assert torch.equal(compose(original.network, [forget]).logits(x), original.network.logits(x))
    assert torch.equal(RecoverNet(original.network, [recover]).logits(x), original.network.logits(x))


@pytest.mark.parametrize("preset", ["ours", "as described"])
def test_deep_part_and_norms_are_the_same_bytes_before_and_after(original, splits, preset):
    before = fingerprint(original.network)
    method = LIRF.preset(preset, **QUICK)
    made = result(deposit(original, splits.train.of((0, 1, 2)), method))
    n = original.network.stage_cut
    deep = [digest(stored.network.split(n)[1].state_dict()) for stored in (original, made.target)]
    assert deep[0] == deep[1] == made.deposit.deep
    assert fingerprint(original.network) == before, "the original was changed"
    convs = {name for name, module in original.network.named_modules() if isinstance(module, torch.nn.Conv2d)}
    for delta in (made.forget, made.deposit.delta):
        assert delta.tensors and {name.removesuffix(".weight") for name in delta.tensors} <= convs


def test_the_published_way_lets_norms_drift(original, splits):
    made = result(deposit(original, splits.train.of((0, 1, 2)), LIRF.preset("as coded", steps=4)))
    assert any("running_mean" in name for name in made.forget.tensors)
    assert any("running_mean" in name for name in made.deposit.delta.tensors)


# The recover rule


def test_every_class_is_answered_by_exactly_one_branch(original, splits, quick):
    x = to_float(splits.test.x[:16])
    target, branch = quick.target.network, compose(quick.target.network, [quick.deposit.delta])
    z = RecoverNet(target, [quick.deposit.delta]).logits(x)
    assert torch.equal(z[:, :3], branch.logits(x)[:, :3])
    assert torch.equal(z[:, 3:], target.logits(x)[:, 3:])
    assert not torch.equal(branch.logits(x), target.logits(x))


def test_recovered_features_are_those_of_the_branch_that_wins(quick, splits):
    x = to_float(splits.test.x[:64])
    restored = RecoverNet(quick.target.network, [quick.deposit.delta])
    wins = restored.logits(x).argmax(1) < 3
    assert wins.any() and not wins.all()
    assert torch.equal(restored.features(x)[~wins], quick.target.network.features(x)[~wins])
    assert torch.equal(restored.features(x)[wins], restored.branches[0].features(x)[wins])


# Randomness and labels


@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_seed_twice_gives_the_same_bytes(original, splits, preset):
    method = LIRF.preset(preset, **QUICK, seed=3)
    made = [result(deposit(original, splits.train.of((0, 1)), method)) for _ in range(2)]
    assert made[0].deposit.id == made[1].deposit.id
    assert fingerprint(made[0].target.network) == fingerprint(made[1].target.network)
    other = result(deposit(original, splits.train.of((0, 1)), LIRF.preset(preset, **QUICK, seed=4)))
    assert other.deposit.id != made[0].deposit.id


def test_wrong_labels_are_never_true_and_cover_all_others():
    y, random = torch.arange(10).repeat(200), torch.Generator().manual_seed(0)
    drawn = wrong_labels(y, 10, "wrong", random)
    assert not (drawn == y).any() and all(len(drawn[y == label].unique()) == 9 for label in range(10))
    published = wrong_labels(y, 10, "any", random)
    assert 0.05 < (published == y).float().mean() < 0.15


def test_a_resumed_deposit_ends_as_if_never_interrupted(original, splits):
    for preset in ("ours", "as coded"):
        method, request = LIRF.preset(preset, **QUICK), Request(splits.train.of((0, 1)), "two")
        events = list(method.run(original.network, request))
        snapshots = [event for event in events if isinstance(event, Snapshot)]
        again = list(method.run(original.network, request, dict(snapshots[0].tensors)))
        for first, second in zip(events[-1].result, again[-1].result, strict=True):
            assert first.fingerprint == second.fingerprint
        steps = [event.step for event in events if isinstance(event, Progress)]
        assert steps == sorted(steps) and steps[-1] == events[-2].total


def test_stop_and_keep_ends_at_once_with_both_halves(original, splits):
    task = LIRF(steps=50, dreams=0).run(original.network, Request(splits.train.of((0, 1)), "two"))
    next(task)
    event = task.send(True)
    assert isinstance(event, Done) and len(event.result) == 2 and all(delta.tensors for delta in event.result)


# It works


def test_the_target_forgets_keeps_the_rest_and_the_deposit_brings_it_back(original, splits, whole):
    z = {"original": logits(original.network, splits.test), "target": logits(whole.target.network, splits.test)}
    z["recovered"] = logits(RecoverNet(whole.target.network, [whole.deposit.delta]), splits.test)
    scores = {name: Accuracy.of(answer, splits.test.y, (0, 1, 2)) for name, answer in z.items()}
    assert scores["original"].pre > 90 and scores["original"].dep > 90
    assert scores["target"].dep < 20 and scores["target"].pre > scores["original"].pre - 6
    assert scores["recovered"].dep > 85 and scores["recovered"].pre > scores["original"].pre - 6


def test_more_pruning_makes_a_smaller_file(original, splits, tmp_path):
    sizes = []
    for ratio in (0.0, 0.5, 0.9):
        made = result(deposit(original, splits.train.of((0, 1)), LIRF(prune=ratio, **QUICK)))
        made.deposit.save(tmp_path / "deposit.safetensors")
        sizes.append((tmp_path / "deposit.safetensors").stat().st_size)
        counts = made.deposit.sizes()
        assert counts["nonzero"] == pytest.approx((1 - ratio) * counts["weights"], rel=0.01)
    assert sizes[0] > 1.4 * sizes[1] > 1.4 * sizes[2]


def test_pruning_removes_the_smallest_weights():
    layer = torch.nn.Conv2d(2, 3, 3)
    before = layer.weight.detach().clone()
    ((weight, gone),) = prune(torch.nn.Sequential(layer), 0.5)
    assert gone.sum() == 27 and (weight[gone] == 0).all() and torch.equal(weight[~gone], before[~gone])
    assert before[gone].abs().max() <= before[~gone].abs().min()


# Deposits in a row


@pytest.fixture(scope="module")
def chain(original, splits):
    first = result(deposit(original, splits.train.of((0, 1)), LIRF(dreams=64)))
    second = result(deposit(first.target, splits.train.of((5,)), LIRF(dreams=64, seed=1)))
    return first, second


def test_a_later_deposit_keeps_earlier_classes_forgotten(chain, splits):
    _, second = chain
    z = logits(second.target.network, splits.test)
    assert Accuracy.of(z, splits.test.y, (0, 1, 5)).dep < 25
    assert Accuracy.of(z, splits.test.y, (0, 1, 5)).pre > 80
    assert [removed.classes for removed in second.target.card.removed] == [("zero", "one"), ("five",)]


@pytest.mark.parametrize("order", [(0,), (1,), (0, 1), (1, 0)])
def test_deposits_are_withdrawn_in_any_number_and_order(chain, splits, order):
    target = chain[1].target
    restored = result(withdraw(target, [chain[index].deposit for index in order]))
    accuracies = [accuracy(restored, splits.test.of((label,))) for label in (0, 1, 5)]
    back = {0: (0 in order), 1: (0 in order), 2: (1 in order)}
    for position, value in enumerate(accuracies):
        assert value > 0.7 if back[position] else value < 0.3, accuracies
    x = to_float(splits.test.x[:8])
    swapped = result(withdraw(target, [chain[index].deposit for index in reversed(order)]))
    assert torch.equal(restored.logits(x), swapped.logits(x))


def test_a_class_cannot_be_deposited_twice(chain, splits):
    with pytest.raises(UserError, match="zero already left"):
        result(deposit(chain[1].target, splits.train.of((0,)), LIRF(**QUICK)))


# Files and refusals


def test_packing_loses_no_bit():
    tensors = {
        "sparse": torch.randn(5, 7) * (torch.rand(5, 7) > 0.6),
        "dense": torch.randn(9),
        "count": torch.tensor(3),
    }
    tensors["sparse"] = tensors["sparse"].masked_fill(tensors["sparse"] == 0, 0)
    back = unpack(pack(tensors), {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    assert digest(back) == digest(tensors) and "sparse:pattern" in pack(tensors) and "dense" in pack(tensors)


def test_a_deposit_file_comes_back_bit_for_bit_and_names_no_data(quick, tmp_path):
    quick.deposit.save(tmp_path / "deposit.safetensors")
    again = Deposit.load(tmp_path / "deposit.safetensors")
    assert again.id == quick.deposit.id and again.classes == ("zero", "one", "two") and again.deep == quick.deposit.deep
    words = (tmp_path / "deposit.safetensors").read_bytes()
    assert b"zero" in words and str(tmp_path).encode() not in words


def test_a_damaged_or_foreign_file_is_refused(quick, tmp_path):
    path = tmp_path / "deposit.safetensors"
    quick.deposit.save(path)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[-5] ^= 1
    for wrong in (content[: len(content) // 2], bytes(flipped), b"", b"not a deposit at all"):
        path.write_bytes(wrong)
        with pytest.raises(DamagedFile, match=r"deposit\.safetensors"):
            Deposit.load(path)
    quick.target.save(path)
    with pytest.raises(DamagedFile):
        Deposit.load(path)
    quick.deposit.save(path)
    with pytest.raises(DamagedFile):
        Stored.load(path)


def test_a_stored_network_comes_back_bit_for_bit_and_refuses_a_changed_byte(quick, tmp_path):
    path = tmp_path / "target.safetensors"
    quick.target.save(path)
    again = Stored.load(path)
    assert again.card == quick.target.card and fingerprint(again.network) == fingerprint(quick.target.network)
    flipped = bytearray(path.read_bytes())
    flipped[-5] ^= 1
    path.write_bytes(bytes(flipped))
    with pytest.raises(DamagedFile, match="changed"):
        Stored.load(path)


def test_a_deposit_of_another_network_is_refused(original, quick, chain, splits):
    with pytest.raises(Mismatch, match="deposited: nothing"):  # the original: nothing was taken from it
        check(original, quick.deposit)
    with pytest.raises(Mismatch, match="zero, one; five"):  # the same original, another target
        check(chain[1].target, quick.deposit)
    stranger = Stored(type(original.network)(**original.network.config | {"seed": 9}), quick.target.card)
    with pytest.raises(Mismatch, match="another network"):
        check(stranger, quick.deposit)
    shapes = type(original.network)(("cat", "dog"), 1)
    with pytest.raises(Mismatch, match="cat, dog"):
        check(Stored(shapes, NetworkCard("pets")), quick.deposit)
    with pytest.raises(UserError, match="twice"):
        result(withdraw(quick.target, [quick.deposit, quick.deposit]))


def test_wrong_requests_are_answered_with_the_rule(original, splits):
    with pytest.raises(UserError, match="at least one must stay"):
        result(deposit(original, splits.train, LIRF(**QUICK)))
    with pytest.raises(UserError, match="empty"):
        result(deposit(original, splits.train.of(()), LIRF(**QUICK)))
    with pytest.raises(UserError, match="split=9"):
        result(deposit(original, splits.train.of((0,)), LIRF(split=9, **QUICK)))
    with pytest.raises(UserError, match="known: zero"):
        class_indices(["zebra"], splits.classes)
    with pytest.raises(UserError, match="known: ours"):
        LIRF.preset("theirs")
    foreign = ImageSet(splits.train.x[:4], torch.tensor([3, 4, 11, 12]))
    with pytest.raises(UserError, match="10 classes"):
        result(LIRF(**QUICK).run(original.network, Request(foreign, "others")))


def test_any_picture_can_be_tried_on_all_networks(original, quick):
    pixels = (torch.rand(20, 30, 3) * 255).byte().numpy()
    said = answers({"original": original.network, "target": quick.target.network}, pixels, size=8)
    assert set(said) == {"original", "target"}
    assert sum(chance for _, chance in said["target"]) == pytest.approx(1, abs=1e-4)
    assert said["target"][0][1] >= said["target"][-1][1]
