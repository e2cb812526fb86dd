"""The one training loop of the family, and what every method does before and after it."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.events import Event, Progress
from engine.data import ImageSet
from engine.masks import plan as plans
from engine.masks.plan import Plan, View
from engine.masks.randomness import keyed
from engine.masks.splits import TaskData
from engine.masks.state import State, Tensors

CALIBRATION = 256  # images whose statistics are kept as a task's norm
REPORTS = 20  # per fit, at least
QUIET = 0.5  # seconds without a report, at most

Step = Generator[Event, bool | None, "Fitted"]
Group = dict[str, object]  # one of torch's parameter groups


@dataclass(frozen=True)
class Fitted:
    loss: float
    stopped: bool


@dataclass(frozen=True)
class Update:
    """What learning changes, handed over at its end as a whole: a stopped or failed run leaves no trace."""

    shared: Tensors
    tasks: dict[int, Tensors]
    loss: float
    stopped: bool
    notes: dict[str, float]


@dataclass(frozen=True)
class Work:
    """One task to be learned: the network's shape, the state so far (not to be changed), data, and random numbers."""

    plan: Plan
    state: State
    task: int
    data: TaskData
    seed: int

    def random(self, purpose: str) -> torch.Generator:
        return keyed(self.seed, self.task, purpose)

    def train(self) -> tuple[Tensor, Tensor]:
        return self._on_device(self.data.train)

    def validation(self) -> tuple[Tensor, Tensor]:
        return self._on_device(self.data.validation)

    def _on_device(self, images: ImageSet) -> tuple[Tensor, Tensor]:
        device = self.state.device
        return plans.prepare(self.plan, images.x.to(device)), images.y.to(device)

    def head(self, width: int | None = None) -> dict[str, Tensor]:
        """A fresh trainable head on `width` features: small random weights, no bias yet."""
        shape = (len(self.data.classes), width or self.plan.features)
        weight = torch.randn(shape, generator=self.random("head")) / math.sqrt(shape[1])
        device = self.state.device
        return {
            "head.weight": weight.to(device).requires_grad_(),
            "head.bias": torch.zeros(shape[0], device=device, requires_grad=True),
        }

    def kaiming(self, shape: Sequence[int], fan_in: int, purpose: str, gain: float = 2.0) -> Tensor:
        """Normal numbers with variance gain / fan_in."""
        draw = torch.randn(tuple(shape), generator=self.random(purpose)) * math.sqrt(gain / fan_in)
        return draw.to(self.state.device)

    def statistics(self, view: View, forward: Callable[..., Tensor]) -> dict[str, Tensor]:
        """The task's norm: statistics of its training images under the weights that will be served."""
        if not self.plan.normed:
            return {}
        seen: list[Tensor] = []
        x, _ = self.train()
        chosen = torch.randperm(len(x), generator=self.random("calibration"))[:CALIBRATION]
        with torch.no_grad():
            forward(view, x[chosen.to(x.device)], seen=seen)
        return {f"norm.{i}": statistics for i, statistics in enumerate(seen)}


def batches(count: int, batch: int, steps: int, random: torch.Generator) -> Iterator[Tensor]:
    """Rows of each batch: shuffled passes over the data, as many as `steps` need."""
    queue = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        while len(queue) < min(batch, count):
            queue = torch.cat([queue, torch.randperm(count, generator=random)])
        yield queue[:batch]
        queue = queue[batch:]


def fit(
    work: Work,
    logits: Callable[[Tensor, int], Tensor],
    groups: Sequence[Group],
    *,
    steps: int,
    batch: int,
    purpose: str = "batches",
    penalty: Callable[[int], Tensor] | None = None,
    on_gradient: Callable[[int], None] | None = None,
    on_step: Callable[[int], None] | None = None,
    optimiser: type[torch.optim.Optimizer] = torch.optim.Adam,
    done: int = 0,
    total: int | None = None,
    note: str = "",
) -> Step:
    """Minimises cross-entropy plus penalty with a fresh optimiser and a cosine rate. `logits(x, step)` is the network
    in training. Reports loss and validation accuracy; the answer "stop" ends it where it is."""
    x, y = work.train()
    total = total or steps
    descent = optimiser(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(descent, steps, eta_min=0.0)
    loss, reported = math.nan, time.monotonic()
    for step, drawn in enumerate(batches(len(x), batch, steps, work.random(purpose))):
        rows = drawn.to(x.device)
        objective = F.cross_entropy(logits(x[rows], step), y[rows])
        loss = objective.item() if step == 0 else 0.9 * loss + 0.1 * objective.item()
        if penalty is not None:
            objective = objective + penalty(step)
        descent.zero_grad()
        objective.backward()
        if on_gradient is not None:
            on_gradient(step)
        descent.step()
        schedule.step()
        if on_step is not None:
            on_step(step)
        if time.monotonic() - reported > QUIET or step % max(1, steps // REPORTS) == 0 or step == steps - 1:
            scalars = {"loss": loss, "accuracy": validation_accuracy(work, lambda v, s=step: logits(v, s))}
            stop = yield Progress(done + step + 1, total, scalars, note=note)
            reported = time.monotonic()
            if stop:
                return Fitted(loss, stopped=True)
    return Fitted(loss, stopped=False)


def validation_accuracy(work: Work, logits: Callable[[Tensor], Tensor], most: int = 256) -> float:
    """Share of at most `most` validation images that are right."""
    x, y = work.validation()
    with torch.no_grad():
        right = logits(x[:most]).argmax(1) == y[:most]
    return right.float().mean().item()


def detached(tensors: Tensors) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
