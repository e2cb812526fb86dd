"""Random sequences of learn, forget and restore: live tasks answer as when they were learned, whatever happens."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.core.events import result
from engine.masks.method import MODES
from engine.masks.state import same_bytes
from tests.tiny_tasks import METHODS, begin, learn, tasks

NUMBERS = st.integers(0, 3)


class Life(RuleBasedStateMachine):
    """What a user may do in any order, beside the little that must be true."""

    method: str

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.net = begin(self.method, steps=2)
        self.answers = {}  # live task -> its logits when it was learned
        self.vaults = {}  # forgotten task -> (file, its logits)
        for task in (0, 1, 2):
            self.learn(task)

    @rule(task=NUMBERS)
    def learn(self, task):
        whole = self.net.state_hash()
        try:
            receipt = result(self.net.learn_task(task, tasks()[task]))
        except UserError:
            assert self.net.state_hash() == whole
            return
        if self.net.capabilities().exact:
            assert set(receipt.drift.values()) <= {0.0}
        else:  # the others drift, and say so
            self.answers = {t: self.logits(t) for t in self.answers}
        self.answers[task] = self.logits(task)
        self.vaults.pop(task, None)

    @rule(task=NUMBERS, mode=st.sampled_from(MODES))
    def forget(self, task, mode):
        whole = self.net.state_hash()
        try:
            receipt = self.net.forget(task, Path(self.folder.name), mode)
        except UserError:
            assert task not in self.answers or (mode == "exclusive" and self.net.dependents(task))
            assert self.net.state_hash() == whole
            return
        for gone in (*receipt.also, receipt):
            self.vaults[gone.task] = (gone.vault, self.answers.pop(gone.task))
        if mode == "cascade":
            assert receipt.grades.storage
        with pytest.raises(UserError, match="was forgotten"):
            self.net.predict(tasks()[task].test.x, task)

    @rule(task=NUMBERS)
    def restore(self, task):
        if task not in self.vaults:
            return
        whole = self.net.state_hash()
        path, answers = self.vaults[task]
        try:
            receipt = self.net.restore(path)
        except Mismatch as refusal:
            assert "built on" in str(refusal)
            assert self.net.state_hash() == whole
            return
        assert receipt.equal
        assert receipt.difference == 0.0
        self.answers[task] = answers
        del self.vaults[task]

    @rule(task=NUMBERS, share=st.floats(0, 0.99))
    def restore_from_half_a_file(self, task, share):
        if task in self.vaults:
            whole, path = self.net.state_hash(), self.vaults[task][0]
            cut = Path(self.folder.name) / "cut.safetensors"
            cut.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
            with pytest.raises(DamagedFile):
                self.net.restore(cut)
            assert self.net.state_hash() == whole

    @invariant()
    def live_tasks_answer_as_ever(self):
        for task, answers in getattr(self, "answers", {}).items():
            assert same_bytes(self.logits(task), answers)

    def teardown(self):
        if not hasattr(self, "net"):
            return
        if self.net.capabilities().order_free:
            twin = begin(self.method, steps=2)
            learn(twin, *sorted(self.answers))
            assert twin.state_hash() == self.net.state_hash()
        self.folder.cleanup()

    def logits(self, task):
        return self.net.logits(tasks()[task].test.x, task)


@pytest.mark.parametrize("name", METHODS)
def test_any_sequence_keeps_live_tasks_bit_for_bit(name):
    machine = type(f"Life of {name}", (Life,), {"method": name})
    chosen = settings(
        max_examples=10,
        stateful_step_count=12,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)
