"""SupSup (Wortsman et al., NeurIPS 2020): a random network never changes; a task is a mask over it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.core.knobs import knob
from engine.masks import gates, mask_methods
from engine.masks.method import Begin, Learn, MaskMethod, entropy, try_each
from engine.masks.packing import pack, unpack
from engine.masks.plan import Plan
from engine.masks.randomness import keyed
from engine.masks.receipts import Capabilities
from engine.masks.state import State
from engine.masks.training import Update, Work, fit


@mask_methods.register("supsup")
@dataclass(frozen=True)
class SupSup(MaskMethod):
    """w = W * M_t with W = +c or -c. The last layer is masked too; its idle outputs sharpen the inference of tasks."""

    lr: float = knob(1e-3, "Adam learning rate of the scores", min=1e-6, max=1.0)
    rule: str = knob("threshold", "how scores become a mask", choices=("threshold", "top"))
    density: float = knob(0.5, "share of weights that a mask of rule 'top' keeps", min=0.01, max=0.99)
    outputs: int = knob(100, "outputs of the network; those beyond the classes stay idle", min=2, max=1000)
    answer: str = knob("one-shot", "how an unnamed task is found", choices=("one-shot", "binary", "try-each"))
    objective: str = knob(
        "entropy",
        "what the right mask lowers: the entropy H, or G, the idle outputs' part",
        choices=("entropy", "idle"),
    )
    used: int = knob(10, "outputs that are not idle, for objective 'idle'", min=1, max=1000, advanced=True)
    sure: float = knob(1.125, "k * max(belief) below which the answer is 'unknown'", min=1.0, max=10.0)

    title: ClassVar[str] = "SupSup"
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=False, exact=True, order_free=True, trained_backbone=False, note="the backbone is its seed"
    )

    def begin(self, plan: Plan, seed: int) -> Begin:
        yield from ()
        weights = {}
        for name, shape, fan_in in self._layers(plan):
            signs = torch.randint(0, 2, shape, generator=keyed(seed, "all", f"signs {name}")) * 2.0 - 1
            weights[name] = gates.kaiming_constant(signs, fan_in)
        return weights

    def learn(self, work: Work) -> Learn:
        if len(work.data.classes) > self.outputs:
            raise UserError(f"{len(work.data.classes)} classes: this network has {self.outputs} outputs")
        shared = work.state.shared
        scores = self.fresh_scores(work.plan, work.random("scores"), work.state.device)

        def logits(x: Tensor, step: int) -> Tensor:
            view = {name: shared[name] * self.on(score) for name, score in scores.items()}
            return self.logits(work.plan, view, x)

        groups = [{"params": list(scores.values()), "lr": self.lr}]
        fitted = yield from fit(work, logits, groups, steps=self.steps, batch=self.batch)
        private = {f"mask.{name}": pack(self.on(score.detach())) for name, score in scores.items()}
        view = self._masked(work.plan, shared, private)
        private |= work.statistics(view, lambda *a, **k: self.logits(work.plan, *a, **k))
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, {})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        private = state.tasks[task]
        norms = {name: tensor for name, tensor in private.items() if name.startswith("norm.")}
        return self._masked(plan, state.shared, private) | norms

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return {name: unpack(state.tasks[task][f"mask.{name}"], shape) for name, shape, _ in self._layers(plan)}

    # Which task is it? Entropy H of a superposition of all masks, by one backward pass.

    def infer(self, plan: Plan, state: State, x: Tensor, by: str | None) -> dict[int, float]:
        """nu for each live task, or for those a binary search left; 0 for all where no mask stands out."""
        if by == "try-each":
            return try_each(self, plan, state, x)
        if by not in ("one-shot", "binary"):
            raise UserError(f"by={by!r}: must be one of one-shot, binary, try-each")
        tasks = sorted(state.tasks)
        masks = [self.masks(plan, state, task) for task in tasks]
        nu = self.belief(plan, state, x, masks)
        if len(tasks) * nu.max() < self.sure:
            return dict.fromkeys(tasks, 0.0)
        while by == "binary" and len(tasks) > 1:
            best = nu.topk(math.ceil(len(tasks) / 2)).indices.sort().values.tolist()
            tasks, masks = [tasks[i] for i in best], [masks[i] for i in best]
            nu = self.belief(plan, state, x, masks)
        return dict(zip(tasks, nu.tolist(), strict=True))

    def belief(self, plan: Plan, state: State, x: Tensor, masks: Sequence[dict[str, Tensor]]) -> Tensor:
        """nu = softmax(-dH/dalpha) at alpha = 1/k: which mask would lower the entropy fastest."""
        alpha = torch.full((len(masks),), 1 / len(masks), device=state.device, requires_grad=True)
        view = {}
        for name, weight in state.shared.items():
            stacked = torch.stack([mask[name] for mask in masks]).to(weight.dtype)
            view[name] = weight * torch.tensordot(alpha, stacked, 1)
        (slope,) = torch.autograd.grad(self._doubt(self.logits(plan, view, x)), alpha)
        return (-slope).softmax(0)

    def on(self, scores: Tensor) -> Tensor:
        """Scores as a mask of zeros and ones, with a straight-through gradient."""
        return gates.above(scores, 0.0) if self.rule == "threshold" else gates.top(scores, self.density)

    def fresh_scores(self, plan: Plan, random: torch.Generator, device: torch.device) -> dict[str, Tensor]:
        """Kaiming-uniform scores, never those of an earlier task: a mask must not carry another one's traces."""
        scores = {}
        for name, shape, fan_in in self._layers(plan):
            draw = (torch.rand(shape, generator=random) * 2 - 1) * math.sqrt(3 / fan_in)
            scores[name] = draw.to(device).requires_grad_()
        return scores

    def _doubt(self, logits: Tensor) -> Tensor:
        """H, or G = logsumexp with gradients through the idle outputs only."""
        if self.objective == "entropy":
            return entropy(logits)
        idle = torch.arange(logits.shape[1], device=logits.device) >= self.used
        return torch.where(idle, logits, logits.detach()).logsumexp(1).mean()

    def _masked(self, plan: Plan, shared, private) -> dict[str, Tensor]:
        return {
            name: shared[name] * unpack(private[f"mask.{name}"], shape).to(shared[name].dtype)
            for name, shape, _ in self._layers(plan)
        }

    def _layers(self, plan: Plan) -> list[tuple[str, tuple[int, ...], int]]:
        """Name, shape and fan-in of every masked layer, the last one included."""
        hidden = [(f"weight.{i}", layer.shape, layer.fan_in) for i, layer in enumerate(plan.layers)]
        return [*hidden, ("head.weight", (self.outputs, plan.features), plan.features)]
