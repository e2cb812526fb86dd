"""A step by several hands is the same step, with one thread and with two to the bit, and errors arrive."""

import copy
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest
import torch
from torch import nn

from engine import device as devices
from engine import hands
from engine.delta import editable
from engine.hands import Part

COSTS = (1.0, 0.5, 1.0, 0.25, 1.0)


@pytest.fixture(params=[1, 2])
def threads(request):
    """Those of the caller; with one there are no hands."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def student():
    random = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    for weight in model.parameters():
        weight.data = torch.randn(weight.shape, generator=random) / 8
    model.register_buffer("seen", torch.zeros(1))
    model.editable = ("0.*", "2.weight")
    editable(model)
    return model


def parts():
    inputs = torch.randn(len(COSTS), 50, 64, generator=torch.Generator().manual_seed(1))
    return [
        Part("even" if n % 2 == 0 else "odd", cost, lambda model, x=x: model(x).square().mean())
        for n, (cost, x) in enumerate(zip(COSTS, inputs, strict=True))
    ]


def step(twins):
    twins[0].zero_grad()
    scalars = hands.gradients(twins, parts())
    return scalars, torch.cat([weight.grad.flatten() for weight in twins[0].parameters() if weight.requires_grad])


def in_a_fresh_thread(work):
    with ThreadPoolExecutor(1) as one:
        return one.submit(work).result()


def test_the_gradients_are_those_of_the_plain_sum_of_the_losses(threads):
    scalars, found = step(hands.twins(student()))
    alone = student()
    losses = [part.loss(alone) for part in parts()]
    sum(losses).backward()
    wanted = torch.cat([weight.grad.flatten() for weight in alone.parameters() if weight.requires_grad])
    torch.testing.assert_close(found, wanted, atol=1e-7, rtol=1e-5)  # sums in another order
    assert scalars["even"] == pytest.approx(sum(loss.item() for loss in losses[::2]), rel=1e-6)
    assert scalars["odd"] == pytest.approx(sum(loss.item() for loss in losses[1::2]), rel=1e-6)


def test_the_gradients_are_the_same_to_the_bit_again_and_with_another_number_of_threads(two_threads):
    twins = hands.twins(student())
    found = [step(twins) for _ in range(3)]
    torch.set_num_threads(1)
    found.append(step(twins))
    assert all(scalars == found[0][0] and torch.equal(grads, found[0][1]) for scalars, grads in found)


def test_twins_keep_the_same_weights_and_hold_no_gradients_of_their_own_in_between(threads):
    twins = hands.twins(student())
    optimiser = torch.optim.Adam(editable(twins[0]), lr=0.1)
    before = copy.deepcopy(twins[0])
    step(twins)
    optimiser.step()
    twins[0].seen += 1
    assert not torch.equal(before[0].weight, twins[0][0].weight)
    for one, other in zip(twins[0].state_dict().values(), twins[1].state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert all(weight.grad is None for weight in twins[1].parameters())


def test_shares_take_about_as_long_as_each_other_and_every_part_is_in_one():
    shares = hands.shared_out(parts(), 2)
    assert sorted(part.cost for share in shares for part in share) == sorted(COSTS)
    assert [sum(part.cost for part in share) for share in shares] == [2.0, 1.75]


def test_an_error_reaches_the_caller_once_nobody_is_at_work_and_the_next_step_is_as_ever(threads):
    twins, ended = hands.twins(student()), []

    def fail(model):
        raise ValueError("a hand slipped")

    def slow(model):
        time.sleep(0.1)
        ended.append(True)
        return model(torch.zeros(1, 64)).sum()

    wanted = step(twins)[1]
    with pytest.raises(ValueError, match="a hand slipped"):
        hands.gradients(twins, [Part("fails", 2.0, fail), Part("slow", 1.0, slow)])
    assert ended or threads == 1
    assert torch.equal(step(twins)[1], wanted)


def test_threads_are_as_many_as_before_here_and_in_threads_to_come():
    def run():
        torch.get_num_threads()  # otherwise its first product would set them to the usual number
        torch.set_num_threads(3)
        in_a_fresh_thread(lambda: torch.set_num_threads(2))
        inside = hands.at_once([torch.get_num_threads] * 2)
        return inside, torch.get_num_threads(), in_a_fresh_thread(torch.get_num_threads)

    before = torch.get_num_threads(), in_a_fresh_thread(torch.get_num_threads)
    hands._hands.cache_clear()  # so that they are started here
    try:
        assert in_a_fresh_thread(run) == ([1, 1], 3, 2)
    finally:
        in_a_fresh_thread(lambda: torch.set_num_threads(before[1]))
    assert (torch.get_num_threads(), in_a_fresh_thread(torch.get_num_threads)) == before


def test_hands_are_threads_that_stay_and_do_not_keep_the_process_alive(two_threads):
    both = threading.Barrier(2, timeout=10)  # passed only by two at once

    def who():
        both.wait()
        return threading.current_thread()

    first, again = (set(hands.at_once([who, who])) for _ in range(2))
    assert len(first) == 2 and first == again and threading.current_thread() not in first
    assert all(thread.daemon for thread in first)


def test_what_holds_in_the_callers_block_holds_in_the_hands(threads):
    asked, seen = ContextVar("asked", default=None), []

    def loss(model):
        seen.append((asked.get(), torch.is_grad_enabled(), model(torch.zeros(1, 64)).dtype))
        return model(torch.zeros(1, 64)).sum()

    asked.set("by the caller")
    with torch.no_grad(), devices.computing(torch.device("cpu"), torch.bfloat16):
        hands.gradients(hands.twins(student()), [Part("a", 1.0, loss)] * 2)
    assert seen == [("by the caller", True, torch.bfloat16)] * 2


def test_with_one_part_only_the_caller_goes_through_it_with_all_threads(two_threads):
    assert hands.at_once([threading.current_thread]) == [threading.current_thread()]
    assert hands.at_once([torch.get_num_threads]) == [2]
