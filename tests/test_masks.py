"""What every mask method must hold, driven by the registry, and what single methods claim beyond that."""

from dataclasses import replace

import pytest
import torch

from engine.core.errors import Mismatch, UserError
from engine.core.events import Progress, result
from engine.masks import mask_methods
from engine.masks.net import MaskedNet
from engine.masks.plan import mlp, prepare
from engine.masks.receipts import UNKNOWN
from engine.masks.splits import splits
from engine.masks.state import same_bytes, sha256
from engine.masks.vault import read
from tests.tiny_tasks import METHODS, PLANS, begin, learn, tasks

EXACT = [name for name in METHODS if mask_methods[name].capabilities.exact]
ORDER_FREE = [name for name in METHODS if mask_methods[name].capabilities.order_free]
SHARING = [name for name in EXACT if name not in ORDER_FREE]
SHAPES = sorted(PLANS)


def logits(net, task):
    return net.logits(tasks()[task].test.x, task)


@pytest.mark.parametrize("plan", SHAPES)
@pytest.mark.parametrize("name", EXACT)
def test_learning_more_leaves_old_tasks_bit_for_bit(name, plan):
    net = begin(name, plan)
    learn(net, 0)
    before, digest = logits(net, 0), net.task_hash(0)
    receipt = learn(net, 1)
    assert receipt.drift == {0: 0.0}
    assert net.task_hash(0) == digest
    assert same_bytes(before, logits(net, 0))
    learn(net, 2)
    assert same_bytes(before, logits(net, 0))


def test_apd_says_how_far_old_tasks_drift():
    net = begin("apd", steps=30)
    learn(net, 0)
    assert learn(net, 1).drift[0] > 0
    frozen = begin("apd", steps=30, frozen=True)
    learn(frozen, 0)
    assert learn(frozen, 1).drift == {0: 0.0}


@pytest.mark.parametrize("plan", SHAPES)
@pytest.mark.parametrize("name", METHODS)
def test_a_restored_task_answers_bit_for_bit_as_before(name, plan, tmp_path):
    net = begin(name, plan)
    learn(net, 0, 1, 2)
    before, whole, others = logits(net, 1), net.state_hash(), {t: logits(net, t) for t in (0, 2)}
    forgot = net.forget(1, tmp_path)
    assert forgot.before == whole
    assert forgot.after == net.state_hash() != whole
    assert all(same_bytes(others[t], logits(net, t)) for t in others)
    with pytest.raises(UserError, match=f"task 1 was forgotten; restore it from {forgot.vault.name}"):
        net.predict(tasks()[1].test.x, 1)
    restored = net.restore(forgot.vault)
    assert restored.equal
    assert restored.difference == 0.0
    assert not restored.overlay
    assert net.state_hash() == whole
    assert same_bytes(before, logits(net, 1))


@pytest.mark.parametrize("plan", SHAPES)
@pytest.mark.parametrize("name", ORDER_FREE)
def test_the_state_after_forgetting_equals_a_run_that_never_saw_the_task(name, plan, tmp_path):
    saw, never = begin(name, plan), begin(name, plan)
    learn(saw, 0, 1, 2)
    learn(never, 0, 2)
    forgot = saw.forget(1, tmp_path)
    assert forgot.grades.storage
    assert forgot.grades.influence
    assert saw.state_hash() == never.state_hash()


@pytest.mark.parametrize("name", EXACT)
def test_forgetting_the_last_task_exclusively_undoes_learning_it(name, tmp_path):
    net = begin(name)
    learn(net, 0, 1)
    before = net.state_hash()
    learn(net, 2)
    forgot = net.forget(2, tmp_path, "exclusive")
    assert forgot.grades.storage
    assert net.state_hash() == before


@pytest.mark.parametrize("plan", SHAPES)
@pytest.mark.parametrize("name", METHODS)
def test_a_task_comes_back_exactly_after_its_place_was_taken(name, plan, tmp_path):
    net = begin(name, plan)
    learn(net, 0, 1)
    before = logits(net, 1)
    forgot = net.forget(1, tmp_path, "exclusive")
    learn(net, 2, 3)
    newer = [logits(net, 2), logits(net, 3)]
    restored = net.restore(forgot.vault)
    assert restored.equal
    assert restored.difference == 0.0
    assert restored.overlay == (name not in ORDER_FREE)
    assert same_bytes(before, logits(net, 1))
    assert all(same_bytes(old, logits(net, t)) for t, old in zip((2, 3), newer, strict=True))
    # Once more from its overlay, after its place has become free again.
    whole = net.state_hash()
    again = net.forget(1, tmp_path)
    assert net.restore(again.vault).overlay == restored.overlay
    assert net.state_hash() == whole
    again = net.forget(1, tmp_path)
    net.forget(3, tmp_path, "exclusive")
    assert net.restore(again.vault).equal
    assert same_bytes(before, logits(net, 1))


@pytest.mark.parametrize("plan", SHAPES)
@pytest.mark.parametrize("name", METHODS)
def test_storage_bits_are_the_length_of_the_payload(name, plan, tmp_path):
    net = begin(name, plan)
    learn(net, 0, 1)
    bits = net.storage_bits(1)
    _, deposit = read(net.forget(1, tmp_path).vault)
    assert bits.total == 8 * sum(tensor.numel() * tensor.element_size() for tensor in deposit.values())


@pytest.mark.parametrize("name", SHARING)
def test_dependents_are_exactly_those_whose_answers_the_weights_carry(name, tmp_path):
    net = begin(name, steps=20)
    learn(net, 0, 1, 2)
    for task in (0, 1, 2):
        readers = net.dependents(task)
        state = net.method.withdraw(net.plan, net.state, task, "mask")
        bare = _without_bytes_of(net, state, task)
        for other in state.tasks:
            same = net.task_hash(other) == _hash(net, bare, other)
            assert same == (other not in readers)
    assert net.dependents(2) == {}


def _without_bytes_of(net, state, task):
    """What would be left if the task's shared bytes were simply wiped."""
    shared = dict(state.shared)
    for name in [name for name in shared if name.startswith("owner.")]:
        weight = name.replace("owner", "weight")
        shared[weight] = torch.where(shared[name] == task + 1, 0.0, shared[weight])
    for name in [name for name in shared if name.startswith(f"capsule.{task}.")]:
        shared[name] = torch.zeros_like(shared[name])
    return replace(state, shared=shared)


def _hash(net, state, task):
    return sha256(net.method.view(net.plan, state, task))


@pytest.mark.parametrize("name", ["packnet", "tfm"])
def test_a_refused_forgetting_says_who_needs_the_weights_and_the_ways_out(name, tmp_path):
    net = begin(name)
    learn(net, 0, 1, 2)
    whole = net.state_hash()
    sentence = r"task 1, 2 was built on task 0: forget both \(mode cascade\), or keep 0's weights \(mode mask\)"
    with pytest.raises(UserError, match=sentence):
        net.forget(0, tmp_path, "exclusive")
    assert net.state_hash() == whole
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["hat", "wsn", "ctr"])
def test_forgetting_exclusively_releases_only_what_no_live_task_reads(name, tmp_path):
    net = begin(name, steps=20)
    learn(net, 0, 1, 2)
    whole, readers, others = net.state_hash(), net.dependents(0), {t: logits(net, t) for t in (1, 2)}
    owned = net.method.remains(net.plan, net.state, 0)
    forgot = net.forget(0, tmp_path, "exclusive")
    assert set(forgot.kept_for) == set(readers) != set()
    assert 0 < net.method.remains(net.plan, net.state, 0) < owned
    assert not forgot.grades.storage
    assert all(same_bytes(others[t], logits(net, t)) for t in others)
    assert net.restore(forgot.vault).equal
    assert net.state_hash() == whole


@pytest.mark.parametrize("name", SHARING)
def test_a_cascade_takes_the_dependents_first_and_brings_all_back(name, tmp_path):
    net = begin(name)
    learn(net, 0, 1, 2)
    whole, readers = net.state_hash(), net.dependents(0)
    forgot = net.forget(0, tmp_path, "cascade")
    assert [receipt.task for receipt in forgot.also] == sorted(readers, reverse=True)
    assert forgot.grades.storage
    for receipt in (forgot, *reversed(forgot.also)):
        assert net.restore(receipt.vault).equal
    assert net.state_hash() == whole


def test_a_task_waits_for_those_it_was_built_on(tmp_path):
    net = begin("packnet")
    learn(net, 0, 1)
    forgot = net.forget(0, tmp_path, "cascade")
    (later,) = forgot.also
    empty = net.state_hash()
    with pytest.raises(Mismatch, match="task 1 was built on task 0, whose bytes are no longer here: restore task 0"):
        net.restore(later.vault)
    assert net.state_hash() == empty


def test_a_task_built_on_weights_that_were_learned_anew_is_refused(tmp_path):
    net = begin("packnet")
    learn(net, 0, 1)
    (later,) = net.forget(0, tmp_path, "cascade").also
    result(net.learn_task(0, tasks()[3]))
    whole = net.state_hash()
    with pytest.raises(Mismatch, match="was built on other weights than are here now"):
        net.restore(later.vault)
    assert net.state_hash() == whole


def test_a_task_whose_weights_still_serve_others_cannot_be_learned_anew(tmp_path):
    net = begin("packnet")
    learn(net, 0, 1)
    net.forget(0, tmp_path)
    with pytest.raises(UserError, match="bytes of task 0 still serve other tasks"):
        net.learn_task(0, tasks()[0])


@pytest.mark.parametrize("name", SHARING)
def test_a_new_task_does_not_read_one_that_lies_in_the_vault(name, tmp_path):
    net = begin(name)
    learn(net, 0, 1)
    vault = net.forget(1, tmp_path).vault
    learn(net, 2)
    net.restore(vault)
    assert 2 not in net.dependents(1)


@pytest.mark.parametrize("name", METHODS)
def test_a_stopped_task_is_kept_and_an_abandoned_one_leaves_no_trace(name):
    net = begin(name)
    learn(net, 0)
    before = net.state_hash()
    abandoned = net.learn_task(1, tasks()[1])
    next(abandoned)
    abandoned.close()
    assert net.state_hash() == before
    stopped = net.learn_task(1, tasks()[1])
    event = next(stopped)
    assert isinstance(event, Progress)
    assert {"loss", "accuracy"} <= set(event.scalars)
    assert event.step < event.total
    receipt = stopped.send(True).result
    assert receipt.stopped
    assert 1 in net.state.tasks


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_bytes(name):
    one, two, other = begin(name), begin(name), begin(name, seed=1)
    for net in (one, two, other):
        learn(net, 0)
    assert one.state_hash() == two.state_hash() != other.state_hash()


@pytest.mark.parametrize("name", METHODS)
def test_answers_do_not_depend_on_what_is_asked_beside_them(name):
    net = begin(name, "cnn")
    learn(net, 0, 1)
    x = tasks()[1].test.x
    assert same_bytes(net.logits(x, 1), net.logits(x, 1))
    assert same_bytes(net.logits(x, 1)[:11], net.logits(x[:11], 1))


def test_methods_that_cannot_find_the_task_say_so_and_offer_to_try_each():
    net = begin("piggyback")
    learn(net, 0, 1)
    x = tasks()[1].test.x
    with pytest.raises(UserError, match="name one of 0, 1, or ask with by='try-each'"):
        net.predict(x)
    answer = net.predict(x, by="try-each")
    assert answer.by == "try-each"
    assert set(answer.belief) == {0, 1}
    assert set(answer.labels) <= set(tasks()[answer.task].classes)


def test_learning_a_live_task_or_foreign_images_is_refused():
    net = begin("supsup")
    learn(net, 0)
    with pytest.raises(UserError, match="task 0 is already learned"):
        net.learn_task(0, tasks()[0])
    other = replace(tasks()[1], train=replace(tasks()[1].train, x=torch.zeros(4, 3, 8, 8, dtype=torch.uint8)))
    with pytest.raises(UserError, match=r"images of \(3, 8, 8\): this network takes \(1, 8, 8\)"):
        net.learn_task(1, other)


# What single methods claim


def test_hat_leaves_every_weight_between_two_earlier_units_alone():
    net = begin("hat", steps=20)
    learn(net, 0, 1)
    between = net.method.uses(net.plan, net.state.tasks[0])
    for i, both in enumerate(between):
        assert not (net.state.shared[f"owner.{i}"][both] == 2).any()
        assert (net.state.shared[f"owner.{i}"][both] == 1).all()
    # With a third task also those between a unit of the first and one of the second.
    learn(net, 2)
    gates = [net.method.masks(net.plan, net.state, t) for t in (0, 1)]
    used = [gates[0][f"gate.{i}"] | gates[1][f"gate.{i}"] for i in range(2)]
    both = net.plan.layers[1].pairs(used[1], used[0])
    assert not (net.state.shared["owner.1"][both] == 3).any()


def test_tfm_evaluates_a_task_on_its_own_slice():
    net = begin("tfm")
    learn(net, 0)
    first = {name: tensor.shape for name, tensor in net.view(0).items()}
    learn(net, 1, 2)
    assert {name: tensor.shape for name, tensor in net.view(0).items()} == first
    assert net.view(2)["weight.1"].shape[0] > net.view(0)["weight.1"].shape[0]
    wide = net.state.shared["weight.1"]
    rows, columns = net.view(0)["weight.1"].shape
    assert same_bytes(net.view(0)["weight.1"], wide[:rows, :columns].contiguous())


@pytest.mark.parametrize("bits", [0, 4, 7, 32])
def test_ksm_serves_the_scales_as_they_are_stored(bits):
    net = begin("ksm", "cnn", scale_bits=bits, steps=20)
    learn(net, 0)
    private = net.state.tasks[0]
    for i, layer in enumerate(net.plan.layers):
        kernels = net.method.kernels(layer, private, i)
        assert len(kernels.unique()) <= 2**bits + 1
        if layer.kind == "conv":
            served = net.state.shared[f"weight.{i}"] * kernels[:, :, None, None]
            assert same_bytes(net.view(0)[f"weight.{i}"], served)


def test_apd_without_the_snapshot_is_smaller_and_only_approximate(tmp_path):
    receipts, bits = {}, {}
    for lean in (False, True):
        net = begin("apd", steps=30, lean=lean)
        learn(net, 0, 1)
        bits[lean] = net.storage_bits(1)
        vault = net.forget(1, tmp_path).vault
        learn(net, 2)
        receipts[lean] = net.restore(vault)
    assert bits[True].snapshot == 0 < bits[False].snapshot
    assert receipts[False].equal
    assert receipts[False].difference == 0.0
    assert not receipts[True].equal
    assert receipts[True].difference > 0.0


@pytest.mark.parametrize("routing", ["full", "all", "none"])
def test_ctr_depends_on_the_capsules_it_routes_to(routing):
    net = begin("ctr", routing=routing, steps=20)
    learn(net, 0, 1)
    routed = [tasks for plug in net.method.routes(net.plan, net.state, 1) for tasks in plug if tasks != 1]
    reads_capsules = "capsules" in net.dependents(0).get(1, "")
    assert reads_capsules == bool(routed)
    assert (routing == "all") <= reads_capsules <= (routing != "none")


def test_supsup_finds_the_task_where_entropy_falls_fastest(tmp_path):
    """The sign matters: the largest entropy gradient would be the worst guess."""
    digits = splits["permuted-digits"].load()[:4]
    net = result(MaskedNet.begin("supsup", {"steps": 100, "lr": 3e-3}, mlp((1, 8, 8), (100, 50)), 0))
    for number, task in enumerate(digits):
        result(net.learn_task(number, task))
    for by in ("one-shot", "binary", "try-each"):
        assert [net.predict(task.test.x[:128], by=by).task for task in digits] == [0, 1, 2, 3]
    for number, task in enumerate(digits):
        belief = net.method.infer(net.plan, net.state, prepare(net.plan, task.test.x[:128]), "one-shot")
        assert min(belief, key=belief.get) != number
    net.forget(2, tmp_path)
    assert net.predict(digits[2].test.x[:128]).task != 2
    assert net.predict(digits[3].test.x[:128]).task == 3


def test_supsup_without_any_task_answers_unknown(tmp_path):
    net = begin("supsup")
    learn(net, 0)
    net.forget(0, tmp_path)
    assert net.predict(tasks()[0].test.x).task == UNKNOWN
