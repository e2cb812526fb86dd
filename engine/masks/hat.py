"""HAT, hard attention to the task (Serrà et al., ICML 2018): a gate per unit and task protects what it uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.knobs import knob
from engine.masks import mask_methods
from engine.masks.gates import Annealed
from engine.masks.method import Begin, Learn
from engine.masks.owned import SEES, Canvas, OwnsWeights
from engine.masks.packing import pack, unpack
from engine.masks.plan import Plan
from engine.masks.receipts import Capabilities
from engine.masks.state import State, Tensors
from engine.masks.training import Update, Work, detached


@mask_methods.register("hat")
@dataclass(frozen=True)
class HAT(OwnsWeights):
    """h' = a * h. A weight between two units of earlier tasks is frozen; gates are hardened when the task ends."""

    lr: float = knob(3e-3, "Adam learning rate of weights and head", min=1e-6, max=1.0)
    gate_lr: float = knob(1e-1, "Adam learning rate of the gate embeddings", min=1e-6, max=10.0)
    s_max: float = knob(400.0, "steepest gate", min=1, max=1000)
    c: float = knob(0.75, "price of a unit that no earlier task uses", min=0, max=10.0)
    cycle: int = knob(40, "batches in which the gates go from soft to steep once", min=2, max=10000)

    title: ClassVar[str] = "HAT"
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=True, order_free=False, trained_backbone=True, note="later tasks share earlier units"
    )

    def owned_shapes(self, plan: Plan) -> list[tuple[tuple[int, ...], int, float]]:
        return [(layer.shape, layer.fan_in, 2.0) for layer in plan.layers]

    def uses(self, plan: Plan, private: Tensors) -> list[Tensor]:
        return _pairs(plan, self._gates(plan, private))

    def begin(self, plan: Plan, seed: int) -> Begin:
        yield from ()
        return self.blank(plan)

    def learn(self, work: Work) -> Learn:
        plan, state = work.plan, work.state
        canvas, head = Canvas(self, work), work.head()
        used = self._used(plan, state)
        gates = Annealed(work, used, self._barred(state, used), s_max=self.s_max, c=self.c, cycle=self.cycle)
        # 1 - min(a_out, a_in) with gates of 0 and 1; the images' side of the first layer counts as used.
        trainable = [free & ~both for free, both in zip(canvas.free, _pairs(plan, used), strict=True)]

        def logits(x: Tensor, a: Sequence[Tensor]) -> Tensor:
            view = {f"weight.{i}": w for i, w in enumerate(canvas.weights(trainable))} | head
            return self.logits(plan, view | {f"gate.{i}": gate for i, gate in enumerate(a)}, x)

        group = {"params": [*canvas.fresh, *head.values()], "lr": self.lr}
        how = {"steps": self.steps, "batch": self.batch}
        hard, fitted = yield from gates.fit(work, logits, group, self.gate_lr, **how)
        private = {SEES: canvas.sees, **detached(head)}
        private |= {f"mask.gate.{i}": pack(gate) for i, gate in enumerate(hard)}
        mine = [t & pair for t, pair in zip(trainable, _pairs(plan, hard), strict=True)]
        shared = canvas.claim(state.shared, mine)
        settled = State(shared, {**state.tasks, work.task: private}, state.overlays)
        view = self.view(plan, settled, work.task)
        private |= work.statistics(view, lambda *a, **k: self.logits(plan, *a, **k))
        notes = {"units": float(sum(int(gate.sum()) for gate in hard))}
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, notes)

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        private = state.tasks[task]
        view = {f"weight.{i}": weight for i, weight in enumerate(self.effective(plan, state, task))}
        view |= {f"gate.{i}": gate.float() for i, gate in enumerate(self._gates(plan, private))}
        return view | {name: t for name, t in private.items() if name.startswith(("head.", "norm."))}

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return {f"gate.{i}": gate for i, gate in enumerate(self._gates(plan, state.tasks[task]))}

    def dependents(self, plan: Plan, state: State, task: int) -> dict[int, str]:
        return dict.fromkeys(super().dependents(plan, state, task), "units")

    def _gates(self, plan: Plan, private: Tensors) -> list[Tensor]:
        return [unpack(private[f"mask.gate.{i}"], (units,)) for i, units in enumerate(plan.units)]

    def _used(self, plan: Plan, state: State) -> list[Tensor]:
        """a of all earlier tasks: units of live tasks in their own place."""
        used = [torch.zeros(units, dtype=torch.bool, device=state.device) for units in plan.units]
        for code in self.visible(state):
            used = [a | b for a, b in zip(used, self._gates(plan, state.tasks[code - 1]), strict=True)]
        return used

    def _barred(self, state: State, used: Sequence[Tensor]) -> list[Tensor]:
        """Units that belong to tasks in the vault only."""
        owned = [(state.shared[f"owner.{i}"] != 0).flatten(1).any(1) for i in range(len(used))]
        return [occupied & ~live for occupied, live in zip(owned, used, strict=True)]


def _pairs(plan: Plan, gates: Sequence[Tensor]) -> list[Tensor]:
    """Weights whose both ends are on; the images are always on."""
    inputs = [torch.ones(plan.layers[0].units_in, dtype=torch.bool, device=gates[0].device), *gates[:-1]]
    return [layer.pairs(out, into) for layer, out, into in zip(plan.layers, gates, inputs, strict=True)]
