"""A training step by several hands: threads that each go through a share of it, on cores of their own.

A step over a few codes is thousands of small products. Cores that are at all of them together wait for each other every
time; with a share of the codes each they meet once, when the gradients are added up. Shares, and the order in which
their gradients are added, do not depend on the threads there are: with one, they come one after another.
"""

import copy
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from engine import device as devices

HANDS = 2  # each holds a graph and gradients of its own
_hiring = threading.Lock()


class Part(NamedTuple):
    """What is gone through at once: the loss it is a part of, how long it takes in comparison, and what a student loses
    by it."""

    name: str
    cost: float
    loss: Callable[[nn.Module], Tensor]


def twins(student: nn.Module) -> list[nn.Module]:
    """A student for each hand, with the same weights and buffers for good and gradients of its own; only a CPU has more
    hands than one."""
    if next(student.parameters()).device.type != "cpu":
        return [student]
    return [student, *(_twin(student) for _ in range(HANDS - 1))]


def _twin(student: nn.Module) -> nn.Module:
    shared = {id(one): nn.Parameter(one.detach(), one.requires_grad) for one in student.parameters()}
    return copy.deepcopy(student, shared | {id(one): one for one in student.buffers()})


def gradients(students: Sequence[nn.Module], parts: Sequence[Part]) -> Counter[str]:
    """Adds the gradients of all parts to those of the first of these twins, and gives the losses by name."""
    shares, scalars = shared_out(parts, len(students)), Counter()
    kind = devices.type_asked_for(next(students[0].parameters()).device) or torch.float32
    for other in students[1:]:
        other.zero_grad()
    for found in at_once([partial(_descend, *pair, kind) for pair in zip(students, shares, strict=True) if pair[1]]):
        scalars.update(found)
    for other in students[1:]:
        for mine, theirs in zip(students[0].parameters(), other.parameters(), strict=True):
            if theirs.grad is not None:
                mine.grad = theirs.grad if mine.grad is None else mine.grad.add_(theirs.grad)
                theirs.grad = None
    return scalars


def shared_out(parts: Sequence[Part], hands: int) -> list[list[Part]]:
    """Shares that take about as long as each other: the costliest first, each to whom has least to do."""
    shares: list[list[Part]] = [[] for _ in range(hands)]
    for part in sorted(parts, key=lambda part: -part.cost):
        min(shares, key=lambda share: sum(one.cost for one in share)).append(part)
    return shares


def _descend(student: nn.Module, share: Sequence[Part], kind: torch.dtype) -> Counter[str]:
    """One part at a time, so that the graph of one is gone before the next. What torch asks of a block of code it asks
    thread by thread."""
    scalars = Counter()
    with torch.enable_grad():
        for part in share:
            with devices.computing(next(student.parameters()).device, kind):
                loss = part.loss(student)
            loss.backward()
            scalars[part.name] += loss.item()
    return scalars


def at_once(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each gives, in their order; the caller's threads are shared out to the hands. An error is raised once none
    is at work any more."""
    threads = torch.get_num_threads() // HANDS
    if len(works) == 1 or not threads:
        return [work() for work in works]
    with _hiring:
        tasks = _hands(threads)
    futures = [Future() for _ in works]
    for future, work in zip(futures, works, strict=True):
        tasks.put((future, partial(copy_context().run, work)))
    wait(futures)
    return [future.result() for future in futures]


@cache
def _hands(threads: int) -> SimpleQueue:
    """What hands with so many threads each take their work from; they stay as long as the process and do not keep it
    alive. What a thread says by `set_num_threads` holds for itself and for all that start later, so the last word has
    one that repeats what held before, and ends."""
    tasks, are_there = SimpleQueue(), threading.Barrier(HANDS + 1)
    with ThreadPoolExecutor(1) as bystander:
        usual = bystander.submit(torch.get_num_threads).result()
        for number in range(HANDS):
            name, how = f"lethe-hand-{number}", (tasks, threads, are_there)
            threading.Thread(target=_serve, args=how, name=name, daemon=True).start()
        are_there.wait()
        bystander.submit(torch.set_num_threads, usual).result()
    return tasks


def _serve(tasks: SimpleQueue, threads: int, are_there: threading.Barrier) -> None:
    torch.get_num_threads()  # a thread that has not asked yet would take the usual number at its first product
    torch.set_num_threads(threads)
    are_there.wait()
    while True:
        _take(tasks)


def _take(tasks: SimpleQueue) -> None:
    """In a function of its own, so that nothing of a share outlives it here."""
    future, work = tasks.get()
    try:
        future.set_result(work())
    except BaseException as error:  # it is the caller's, who would wait for ever
        future.set_exception(error)
