"""CTR, capsules and transfer routing (Ke et al., NeurIPS 2021), for images: gated adapters in a fixed network, before
each of them capsules, one per task, of which a later task may route to those that help."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.knobs import knob
from engine.masks import capsules, mask_methods
from engine.masks import plan as plans
from engine.masks.backbone import pretrained, pretraining_knob
from engine.masks.gates import Annealed
from engine.masks.method import Begin, Learn, Mode
from engine.masks.owned import SEES, Canvas, OwnsWeights
from engine.masks.packing import pack, unpack
from engine.masks.plan import Plan, View
from engine.masks.receipts import Capabilities
from engine.masks.shapes import WORDS
from engine.masks.state import State, Tensors
from engine.masks.training import Update, Work, detached

RARE = 0.01  # a route that fires less often on the training set is cut for good


@mask_methods.register("ctr")
@dataclass(frozen=True)
class CTR(OwnsWeights):
    """y = x + U sum_i d_i R_i p_i with capsules p_i = squash(A_i x) of tasks i <= t, then
    out = y + a_out * V ReLU(a_hid * D y). D and V are shared under HAT's rule; A_i is frozen once i is learned."""

    lr: float = knob(3e-3, "Adam learning rate of weights and head", min=1e-6, max=1.0)
    gate_lr: float = knob(1e-1, "Adam learning rate of the gate embeddings", min=1e-6, max=10.0)
    s_max: float = knob(400.0, "steepest gate", min=1, max=1000)
    c: float = knob(0.75, "price of a unit that no earlier task uses", min=0, max=10.0)
    cycle: int = knob(40, "batches in which the gates go from soft to steep once", min=2, max=10000)
    routing: str = knob("full", "capsules with learned routes, all routes, or none", choices=("full", "all", "none"))
    pretrain: int = pretraining_knob()

    title: ClassVar[str] = "CTR"
    pretraining: ClassVar[str] = WORDS
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=True, order_free=False, trained_backbone=False, note="later tasks read earlier capsules"
    )

    # D and V of every plug-in are the owned weights.

    def owned_shapes(self, plan: Plan) -> list[tuple[tuple[int, ...], int, float]]:
        return [shape for channels in _plugs(plan).values() for shape in capsules.adapter_shapes(channels)]

    def uses(self, plan: Plan, private: Tensors) -> list[Tensor]:
        return _pairs(self._gates(plan, private))

    def begin(self, plan: Plan, seed: int) -> Begin:
        shared = yield from pretrained(plan, seed, self.pretrain)
        return {f"backbone.{name}": tensor for name, tensor in shared.items()} | self.blank(plan)

    def learn(self, work: Work) -> Learn:
        plan, state = work.plan, work.state
        canvas, head = Canvas(self, work), work.head()
        used = self._used(plan, state)
        gates = Annealed(work, used, self._barred(state, used), s_max=self.s_max, c=self.c, cycle=self.cycle)
        trainable = [free & ~both for free, both in zip(canvas.free, _pairs(used), strict=True)]
        tasks = [*sorted(state.tasks), work.task]
        own: list[dict[str, Tensor]] = []  # per plug-in: the task's capsule A, b and its router
        if self.routing != "none":
            for p, channels in _plugs(plan).items():
                own.append(capsules.capsule(work, p, channels) | capsules.router(work, p, channels, len(tasks)))
        noise = capsules.noisy(work.random("routes"))

        def plugs(a: Sequence[Tensor]) -> list[dict[str, Tensor]]:
            parts = _adapters(canvas.weights(trainable), a)
            for i, mine in enumerate(own):
                trained = {f"capsule.{work.task}.{i}.{name}": mine[name] for name in ("A", "b")}
                parts[i] |= mine | _stack({**state.shared, **trained}, tasks, i)
            return parts

        fixed = _backbone(state.shared)

        def run(x: Tensor, a: Sequence[Tensor], fired: list[Tensor] | None = None) -> Tensor:
            decide = noise if torch.is_grad_enabled() and self.routing == "full" else self._decide
            return plans.head(head, self._run(plan, fixed, plugs(a), x, decide, fired))

        parameters = [*canvas.fresh, *(t for mine in own for t in mine.values()), *head.values()]
        group = {"params": parameters, "lr": self.lr}
        how = {"steps": self.steps, "batch": self.batch}
        hard, fitted = yield from gates.fit(work, run, group, self.gate_lr, **how)
        rates = self._rates(work, lambda x, fired: run(x, [gate.float() for gate in hard], fired), len(own))
        private = {SEES: canvas.sees, **detached(head)} | {f"mask.gate.{i}": pack(g) for i, g in enumerate(hard)}
        shared = canvas.claim(state.shared, [t & pair for t, pair in zip(trainable, _pairs(hard), strict=True)])
        for i, (mine, rate) in enumerate(zip(own, rates, strict=True)):
            kept = rate >= RARE  # its own route always fires
            private[f"index.routes.{i}"] = torch.tensor(tasks, dtype=torch.uint8, device=state.device)[kept]
            private |= {f"weights.{i}.{name}": mine[name].detach() for name in ("B", "w2", "w1", "U")}
            private[f"weights.{i}.R"] = mine["R"].detach()[kept]
            shared |= {f"capsule.{work.task}.{i}.{name}": mine[name].detach() for name in ("A", "b")}
        routes = sum(len(private[f"index.routes.{i}"]) - 1 for i in range(len(own)))
        notes = {"units": float(sum(int(gate.sum()) for gate in hard)), "routes": float(routes)}
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, notes)

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        private = state.tasks[task]
        gates = [gate.float() for gate in self._gates(plan, private)]
        view = _backbone(state.shared) | {name: t for name, t in private.items() if name.startswith("head.")}
        for i, adapter in enumerate(_adapters(self.effective(plan, state, task), gates)):
            parts = dict(adapter)
            if self.routing != "none":
                parts |= _stack(state.shared, private[f"index.routes.{i}"].tolist(), i)
                parts |= {name: private[f"weights.{i}.{name}"] for name in ("R", "B", "w2", "w1", "U")}
            view |= {f"plug.{i}.{name}": tensor for name, tensor in parts.items()}
        return view

    def features(self, plan: Plan, view: View, x: Tensor, seen: list[Tensor] | None = None) -> Tensor:
        parts: list[dict[str, Tensor]] = [{} for _ in _plugs(plan)]
        for path, tensor in view.items():
            if path.startswith("plug."):
                _, i, name = path.split(".")
                parts[int(i)][name] = tensor
        return self._run(plan, view, parts, x, self._decide)

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return {f"gate.{i}": gate for i, gate in enumerate(self._gates(plan, state.tasks[task]))}

    def routes(self, plan: Plan, state: State, task: int) -> list[list[int]]:
        """Per plug-in, the tasks whose capsules this one reads, itself last."""
        private = state.tasks[task]
        return [private[f"index.routes.{i}"].tolist() for i in _plugs(plan) if f"index.routes.{i}" in private]

    # A capsule lives among the shared bytes as long as a live task routes to it.

    def deposit(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        prefix = f"capsule.{task}."
        own = {f"weights.capsule.{n.removeprefix(prefix)}": t for n, t in _capsules_of(state.shared, task).items()}
        return super().deposit(plan, state, task) | own

    def withdraw(self, plan: Plan, state: State, task: int, mode: Mode) -> State:
        state = super().withdraw(plan, state, task, mode)
        if any(task in routed for other in state.tasks for routed in self.routes(plan, state, other)):
            return state
        gone = _capsules_of(state.shared, task)
        return replace(state, shared={name: t for name, t in state.shared.items() if name not in gone})

    def put_back(self, plan: Plan, state: State, task: int, deposit: Tensors) -> State:
        prefix = "weights.capsule."
        back = {f"capsule.{task}.{n.removeprefix(prefix)}": t for n, t in deposit.items() if n.startswith(prefix)}
        rest = {name: tensor for name, tensor in deposit.items() if not name.startswith(prefix)}
        state = super().put_back(plan, state, task, rest)
        return replace(state, shared={**state.shared, **back})

    def dependents(self, plan: Plan, state: State, task: int) -> dict[int, str]:
        readers = dict.fromkeys(super().dependents(plan, state, task), "units")
        for other in sorted(state.tasks):
            if other != task and any(task in routed for routed in self.routes(plan, state, other)):
                readers[other] = "units and capsules" if other in readers else "capsules"
        return readers

    def remains(self, plan: Plan, state: State, task: int) -> int:
        own = _capsules_of(state.shared, task).values()
        return super().remains(plan, state, task) + sum(32 * tensor.numel() for tensor in own)

    def built_on(self, deposit: Tensors, task: int) -> list[int]:
        routed = [i for name, t in deposit.items() if name.startswith("index.routes.") for i in t.tolist()]
        return sorted({*super().built_on(deposit, task), *routed} - {task})

    # Inside

    def _decide(self, q: Tensor) -> Tensor:
        return capsules.served(q) if self.routing == "full" else capsules.all_on(q)

    def _run(
        self,
        plan: Plan,
        view: View,
        parts: Sequence[Tensors],
        x: Tensor,
        decide: capsules.Decide,
        fired: list[Tensor] | None = None,
    ) -> Tensor:
        def after(layer: int, h: Tensor) -> Tensor:
            if layer >= len(parts):
                return h
            return capsules.plug_in(parts[layer], h, decide, fired)

        return plans.run(plan, view, x, after=after)

    def _rates(self, work: Work, run: Callable[[Tensor, list[Tensor]], Tensor], plugs: int) -> list[Tensor]:
        """Per plug-in, how often each route fires on the training set."""
        x, _ = work.train()
        fired: list[Tensor] = []
        with torch.no_grad():
            for rows in x.split(plans.SERVED):
                run(rows, fired)
        return [torch.cat(fired[i::plugs]).mean(0) for i in range(plugs)]

    def _gates(self, plan: Plan, private: Tensors) -> list[Tensor]:
        return [unpack(private[f"mask.gate.{i}"], (size,)) for i, size in enumerate(_gate_sizes(plan))]

    def _used(self, plan: Plan, state: State) -> list[Tensor]:
        used = [torch.zeros(size, dtype=torch.bool, device=state.device) for size in _gate_sizes(plan)]
        for code in self.visible(state):
            used = [a | b for a, b in zip(used, self._gates(plan, state.tasks[code - 1]), strict=True)]
        return used

    def _barred(self, state: State, used: Sequence[Tensor]) -> list[Tensor]:
        """Units that belong to tasks in the vault only."""
        owned = [(state.shared[f"owner.{i}"] != 0).any(1) for i in range(len(used))]
        return [occupied & ~live for occupied, live in zip(owned, used, strict=True)]


def _plugs(plan: Plan) -> dict[int, int]:
    """Layers that a plug-in follows, and their channels: every convolution, or every layer where there is none."""
    followed = [layer for layer in plan.layers if layer.kind == "conv"] or plan.layers
    return {i: layer.units_out for i, layer in enumerate(followed)}


def _gate_sizes(plan: Plan) -> list[int]:
    return [size for channels in _plugs(plan).values() for size in (capsules.HIDDEN, channels)]


def _pairs(gates: Sequence[Tensor]) -> list[Tensor]:
    """Weights of D (into a hidden unit, from anywhere) and V (both ends) that the gates let through."""
    pairs = []
    for hidden, out in zip(gates[::2], gates[1::2], strict=True):
        pairs += [hidden[:, None].expand(-1, len(out)), out[:, None] & hidden[None]]
    return pairs


def _adapters(weights: Sequence[Tensor], gates: Sequence[Tensor]) -> list[dict[str, Tensor]]:
    rows = zip(weights[::2], weights[1::2], gates[::2], gates[1::2], strict=True)
    return [{"D": D, "V": V, "hidden": hidden, "out": out} for D, V, hidden, out in rows]


def _backbone(shared: Tensors) -> dict[str, Tensor]:
    prefix = "backbone."
    return {name.removeprefix(prefix): tensor for name, tensor in shared.items() if name.startswith(prefix)}


def _stack(shared: Tensors, tasks: Sequence[int], plug: int) -> dict[str, Tensor]:
    """Capsules of these tasks, stacked."""
    return {name: torch.stack([shared[f"capsule.{t}.{plug}.{name}"] for t in tasks]) for name in ("A", "b")}


def _capsules_of(shared: Tensors, task: int) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in shared.items() if name.startswith(f"capsule.{task}.")}
