"""APD, additive parameter decomposition (Yoon et al., ICLR 2020): shared weights, a soft mask and a sparse rest."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.knobs import knob
from engine.masks import mask_methods
from engine.masks.method import Begin, Learn, MaskMethod
from engine.masks.packing import pack, unpack
from engine.masks.plan import Plan
from engine.masks.randomness import keyed
from engine.masks.receipts import Capabilities
from engine.masks.state import State, Tensors, same_bytes
from engine.masks.training import Update, Work, detached, fit

OPEN = 4.0  # v at first: M about 0.98


@mask_methods.register("apd")
@dataclass(frozen=True)
class APD(MaskMethod):
    """theta_t = sigma * sigmoid(v_t) + tau_t. Sigma moves with every task; old tasks follow by a penalty, so they
    drift a little. The vault holds a snapshot of sigma, on which a restored task runs."""

    lr: float = knob(1e-3, "Adam learning rate", min=1e-6, max=1.0)
    l1: float = knob(4e-4, "price of tau; entries below it count as 0", min=0, max=1.0)
    l2: float = knob(100.0, "price of moving an old task's weights", min=0, max=1e5)
    decay: float = knob(1e-4, "weight decay of sigma", min=0, max=1.0, advanced=True)
    frozen: bool = knob(False, "sigma stays as the first task leaves it: no drift at all")
    lean: bool = knob(False, "leave the snapshot out of the vault: smaller, but restoring is approximate")

    title: ClassVar[str] = "APD"
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=False, order_free=False, trained_backbone=True, note="old tasks drift by a penalty"
    )

    def begin(self, plan: Plan, seed: int) -> Begin:
        yield from ()
        return {
            f"sigma.{i}": torch.randn(x.shape, generator=keyed(seed, "all", f"sigma {i}")) * (2 / x.fan_in) ** 0.5
            for i, x in enumerate(plan.layers)
        }

    def learn(self, work: Work) -> Learn:
        plan, state = work.plan, work.state
        count = range(len(plan.layers))
        old = {} if self.frozen else {t: own for t, own in state.tasks.items() if t not in state.overlays}
        moves = not self.frozen or not state.tasks
        sigma = [state.shared[f"sigma.{i}"].clone().requires_grad_(moves) for i in count]
        v = [torch.full((n,), OPEN, device=state.device, requires_grad=True) for n in plan.units]
        bias = [torch.zeros(n, device=state.device, requires_grad=True) for n in plan.units]
        tau = [torch.zeros_like(s, requires_grad=True) for s in sigma]
        old_tau = {t: [x.requires_grad_() for x in _taus(plan, own)] for t, own in old.items()}
        theta = {t: self._thetas(plan, state, t) for t in old}  # theta*: where old tasks are to stay
        head = work.head()

        def logits(x: Tensor, step: int) -> Tensor:
            view = {f"weight.{i}": sigma[i] * _soft(v[i], sigma[i]) + tau[i] for i in count}
            return self.logits(plan, view | {f"shift.{i}": bias[i] for i in count} | head, x)

        def penalty(step: int) -> Tensor:
            cost = self.l1 * sum(x.abs().sum() for x in tau) + self.decay * sum((s * s).sum() for s in sigma)
            for t, own in old.items():
                for i in count:
                    now = sigma[i] * _soft(own[f"mask.v.{i}"], sigma[i]) + old_tau[t][i]
                    cost = cost + self.l2 * ((theta[t][i] - now) ** 2).sum() + self.l1 * old_tau[t][i].abs().sum()
            return cost

        trained = [*v, *bias, *tau, *head.values(), *(x for own in old_tau.values() for x in own)]
        groups = [{"params": trained + (sigma if moves else []), "lr": self.lr}]
        fitted = yield from fit(work, logits, groups, steps=self.steps, batch=self.batch, penalty=penalty)
        private = {f"mask.v.{i}": v[i].detach() for i in count} | {f"weights.bias.{i}": bias[i].detach() for i in count}
        private |= self._sparse(tau) | detached(head)
        shared = {f"sigma.{i}": s.detach() for i, s in enumerate(sigma)}
        tasks = {t: {**old[t], **self._sparse(old_tau[t])} for t in old} | {work.task: private}
        settled = State(shared, {**state.tasks, **tasks}, state.overlays)
        view = self.view(plan, settled, work.task)
        private |= work.statistics(view, lambda *a, **k: self.logits(plan, *a, **k))
        moved = [
            (a - b).abs().max().item()
            for t in old
            for a, b in zip(theta[t], self._thetas(plan, settled, t), strict=True)
        ]
        return Update(shared, tasks, fitted.loss, fitted.stopped, {"moved": max(moved, default=0.0)})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        private = state.tasks[task]
        view = {f"weight.{i}": theta for i, theta in enumerate(self._thetas(plan, state, task))}
        view |= {f"shift.{i}": private[f"weights.bias.{i}"] for i in range(len(plan.layers))}
        return view | {name: t for name, t in private.items() if name.startswith(("head.", "norm."))}

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return {f"tau.{i}": tau != 0 for i, tau in enumerate(_taus(plan, state.tasks[task]))}

    def deposit(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        snapshot = {} if self.lean else {f"snapshot.{i}": s for i, s in enumerate(self._sigma(plan, state, task))}
        return dict(state.tasks[task]) | snapshot

    def withdraw(self, plan: Plan, state: State, task: int, mode) -> State:
        return state.without_task(task).with_overlay(task, {})

    def put_back(self, plan: Plan, state: State, task: int, deposit: Tensors) -> State:
        """On its snapshot as an overlay, unless sigma is still the same."""
        snapshot = {name: tensor for name, tensor in deposit.items() if name.startswith("snapshot.")}
        private = {name: tensor for name, tensor in deposit.items() if name not in snapshot}
        moved = any(not same_bytes(s, state.shared[f"sigma.{name[9:]}"]) for name, s in snapshot.items())
        return state.with_task(task, private).with_overlay(task, snapshot if moved else {})

    def _thetas(self, plan: Plan, state: State, task: int) -> list[Tensor]:
        own = state.tasks[task]
        sigmas, taus = self._sigma(plan, state, task), _taus(plan, own)
        return [s * _soft(own[f"mask.v.{i}"], s) + tau for i, (s, tau) in enumerate(zip(sigmas, taus, strict=True))]

    def _sigma(self, plan: Plan, state: State, task: int) -> list[Tensor]:
        own = state.overlays.get(task, {})
        return [own.get(f"snapshot.{i}", state.shared[f"sigma.{i}"]) for i in range(len(plan.layers))]

    def _sparse(self, taus: list[Tensor]) -> dict[str, Tensor]:
        """Where tau counts, and its values there."""
        stored = {}
        for i, tau in enumerate(taus):
            counts = tau.detach().abs() > self.l1
            stored |= {f"index.tau.{i}": pack(counts), f"weights.tau.{i}": tau.detach()[counts]}
        return stored


def _taus(plan: Plan, own: Tensors) -> list[Tensor]:
    taus = []
    for i, layer in enumerate(plan.layers):
        where = unpack(own[f"index.tau.{i}"], layer.shape)
        dense = torch.zeros(layer.shape, device=where.device)
        dense[where] = own[f"weights.tau.{i}"]
        taus.append(dense)
    return taus


def _soft(v: Tensor, like: Tensor) -> Tensor:
    """M = sigmoid(v), one value per output unit."""
    return torch.sigmoid(v).reshape(-1, *[1] * (like.dim() - 1))
