"""A loop that keeps its memory does not ask the system for it again, and gives it back in the end; what a start makes
is not looked through for rubbish."""

import ctypes
import gc
import resource
import sys

import pytest
import torch

from benchmarks.memory import alone
from engine import memory

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc can be told"
)


def faults(rounds: int) -> int:
    """Pages that the system had to give for blocks of 40 MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        torch.empty(40 << 20, dtype=torch.uint8).fill_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def inside_and_after() -> tuple[int, int]:
    with memory.kept():
        faults(20)  # until the heap is large enough
        inside = faults(8)
    return inside, faults(1)


def test_freed_memory_is_used_again_inside_and_given_back_at_the_end():
    inside, after = alone(inside_and_after)  # what is given back depends on what else lies in the heap
    block = (40 << 20) // resource.getpagesize()
    assert inside < 2 * block and after > 0.9 * block


def test_a_task_runs_as_before_and_may_be_told_to_stop():
    def task(first):
        answer = yield first
        return answer

    wrapped = memory.kept_while_running(task)("a")
    assert next(wrapped) == "a"
    with pytest.raises(StopIteration) as end:
        wrapped.send("stop")
    assert end.value.value == "stop"


def test_nothing_is_collected_while_a_start_builds_and_what_it_built_is_left_out_later_even_if_it_failed():
    before = gc.get_freeze_count()
    try:
        with pytest.raises(OSError), memory.uncollected():
            assert not gc.isenabled()
            raise OSError("the port is taken")
        assert gc.isenabled() and gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
