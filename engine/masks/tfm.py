"""TFM, ternary feature masks (Masana, Tuytelaars, van de Weijer, CVPR workshops 2021): frozen, new or not used."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.core.knobs import knob
from engine.masks import mask_methods
from engine.masks.method import Begin, Learn
from engine.masks.owned import SEES, Canvas, OwnsWeights
from engine.masks.packing import pack_numbers, unpack_numbers
from engine.masks.plan import Layer, Plan
from engine.masks.receipts import Capabilities
from engine.masks.state import State, Tensors
from engine.masks.training import Update, Work, detached, fit

NOT_USED, FROZEN, TRAINABLE = 0, 1, 2


@mask_methods.register("tfm")
@dataclass(frozen=True)
class TFM(OwnsWeights):
    """y = ReLU(gamma * z + beta) on the task's own slice of the weights. Each task adds a few features and may read
    those of live tasks; the network has room for a set number of tasks, and unused room rests at 0."""

    lr: float = knob(3e-3, "Adam learning rate", min=1e-6, max=1.0)
    first: float = knob(0.5, "share of the common width that the first task takes", min=0.05, max=1.0)
    growth: float = knob(0.125, "share of the common width that each later task adds", min=0.01, max=1.0)
    room: int = knob(8, "tasks that the network has room for", min=1, max=50)

    title: ClassVar[str] = "TFM"
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=True, order_free=False, trained_backbone=True, note="later tasks read earlier features"
    )

    def owned_shapes(self, plan: Plan) -> list[tuple[tuple[int, ...], int, float]]:
        return [(wide.shape, layer.fan_in, 2.0) for wide, layer in zip(self._wide(plan), plan.layers, strict=True)]

    def uses(self, plan: Plan, private: Tensors) -> list[Tensor]:
        used = [state != NOT_USED for state in self.states(plan, private)]
        return [
            x.pairs(out, into) for x, out, into in zip(self._wide(plan), used, self._inputs(plan, used), strict=True)
        ]

    def begin(self, plan: Plan, seed: int) -> Begin:
        yield from ()
        return self.blank(plan)

    def learn(self, work: Work) -> Learn:
        plan, canvas = work.plan, Canvas(self, work)
        states = self._allot(plan, work.state)
        used, old = [s != NOT_USED for s in states], [s == FROZEN for s in states]
        both_old = zip(self._wide(plan), old, self._inputs(plan, old), canvas.free, strict=True)
        # Everything in the slice except what lies between two frozen features; the images count as frozen.
        trainable = [free & ~x.pairs(out, into) for x, out, into, free in both_old]
        widths = [int(u.sum()) for u in used]
        scale = [torch.ones(n, device=work.state.device, requires_grad=True) for n in widths]
        shift = [torch.zeros(n, device=work.state.device, requires_grad=True) for n in widths]
        head = work.head(widths[-1])
        touch = {f"scale.{i}": g for i, g in enumerate(scale)} | {f"shift.{i}": b for i, b in enumerate(shift)} | head

        def logits(x: Tensor, step: int) -> Tensor:
            return self.logits(plan, self._slices(plan, canvas.weights(trainable), used) | touch, x)

        groups = [{"params": [*canvas.fresh, *touch.values()], "lr": self.lr}]
        fitted = yield from fit(work, logits, groups, steps=self.steps, batch=self.batch)
        private = {SEES: canvas.sees} | {f"mask.{i}": pack_numbers(s, 2) for i, s in enumerate(states)}
        private |= {name if name in head else f"norm.{name}": t for name, t in detached(touch).items()}
        mine = [t & slot for t, slot in zip(trainable, self.uses(plan, private), strict=True)]
        shared = canvas.claim(work.state.shared, mine)
        settled = State(shared, {**work.state.tasks, work.task: private}, work.state.overlays)
        view = self.view(plan, settled, work.task)
        private |= work.statistics(view, lambda *a, **k: self.logits(plan, *a, **k))
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, {"features": float(sum(widths))})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        private = state.tasks[task]
        used = [states != NOT_USED for states in self.states(plan, private)]
        view = self._slices(plan, self.effective(plan, state, task), used)
        for name, tensor in private.items():
            if name.startswith(("norm.scale.", "norm.shift.")):
                view[name.removeprefix("norm.")] = tensor
            elif name.startswith(("head.", "norm.")):
                view[name] = tensor
        return view

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return {f"feature.{i}": s != NOT_USED for i, s in enumerate(self.states(plan, state.tasks[task]))}

    def states(self, plan: Plan, private: Tensors) -> list[Tensor]:
        """The ternary mask: one of NOT_USED, FROZEN, TRAINABLE per feature and layer."""
        wide = self._wide(plan)
        return [unpack_numbers(private[f"mask.{i}"], 2, layer.units_out) for i, layer in enumerate(wide)]

    def dependents(self, plan: Plan, state: State, task: int) -> dict[int, str]:
        return dict.fromkeys(super().dependents(plan, state, task), "features")

    def _allot(self, plan: Plan, state: State) -> list[Tensor]:
        """Features of live tasks as frozen, the first free ones as new."""
        visible = self.visible(state)
        states = []
        for i, (wide, layer) in enumerate(zip(self._wide(plan), plan.layers, strict=True)):
            mask = torch.full((wide.units_out,), NOT_USED, device=state.device)
            for code in visible:
                mask[self.states(plan, state.tasks[code - 1])[i] == TRAINABLE] = FROZEN
            free = ~(state.shared[f"owner.{i}"] != 0).flatten(1).any(1)
            want = _width(layer, self.growth if visible else self.first)
            slots = free.nonzero()[:want, 0]
            if len(slots) < want:
                raise UserError(
                    f"no room for another task (room={self.room}): forget one with mode exclusive or cascade, "
                    "or begin with more room"
                )
            mask[slots] = TRAINABLE
            states.append(mask)
        return states

    def _wide(self, plan: Plan) -> list[Layer]:
        """The layers with all the room that tasks may ever take."""
        widths = [_width(x, self.first) + (self.room - 1) * _width(x, self.growth) for x in plan.layers]
        inputs = [plan.layers[0].units_in, *widths[:-1]]
        return [replace(x, units_in=a, units_out=b) for x, a, b in zip(plan.layers, inputs, widths, strict=True)]

    def _inputs(self, plan: Plan, features: Sequence[Tensor]) -> list[Tensor]:
        """What enters each layer; the images are always there."""
        first = torch.ones(plan.layers[0].units_in, dtype=torch.bool, device=features[0].device)
        return [first, *features[:-1]]

    def _slices(self, plan: Plan, weights: Sequence[Tensor], used: Sequence[Tensor]) -> dict[str, Tensor]:
        """Dense weights of the used features only. Zeros in a wider product could change the order of summation."""
        view = {}
        inputs = self._inputs(plan, used)
        for i, (layer, weight, out, into) in enumerate(zip(plan.layers, weights, used, inputs, strict=True)):
            columns = into if layer.kind == "conv" else into.repeat_interleave(layer.spread)
            view[f"weight.{i}"] = weight[out][:, columns].contiguous()
        return view


def _width(layer: Layer, share: float) -> int:
    return max(1, round(share * layer.units_out))
