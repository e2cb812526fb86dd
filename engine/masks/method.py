"""What a method of the family must say. Everything else is in `net.MaskedNet` and is the same for all."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.core.events import Event
from engine.core.knobs import check, knob
from engine.masks import plan as plans
from engine.masks.plan import Plan, View
from engine.masks.receipts import Capabilities
from engine.masks.state import State, Tensors
from engine.masks.training import Update, Work

Mode = Literal["mask", "exclusive", "cascade"]
MODES: tuple[Mode, ...] = ("mask", "exclusive", "cascade")
Begin = Generator[Event, bool | None, dict[str, Tensor]]
Learn = Generator[Event, bool | None, Update]


@dataclass(frozen=True)
class MaskMethod(ABC):
    """Knobs and formulas. As it stands, tasks read nothing of each other: their own bytes and a fixed backbone."""

    steps: int = knob(400, "training batches per task", min=1, max=20000)
    batch: int = knob(32, "images per batch", min=1, max=1024)
    lr: float = knob(1e-3, "learning rate", min=1e-6, max=1.0)

    title: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    answer: ClassVar[str | None] = None  # how an unnamed task is found; None where the method cannot
    pretraining: ClassVar[str] = ""  # what the backbone was trained on before the first task, in words

    def __post_init__(self) -> None:
        check(self)

    # What each method says

    @abstractmethod
    def begin(self, plan: Plan, seed: int) -> Begin:
        """The shared bytes before the first task. Yields progress if that takes long."""

    @abstractmethod
    def learn(self, work: Work) -> Learn:
        """Trains one task and returns what changes; the state itself is not touched."""

    @abstractmethod
    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        """Every tensor the task's answer is computed from, and nothing else."""

    # The network

    def features(self, plan: Plan, view: View, x: Tensor, seen: list[Tensor] | None = None) -> Tensor:
        return plans.run(plan, view, x, seen=seen)

    def logits(self, plan: Plan, view: View, x: Tensor, seen: list[Tensor] | None = None) -> Tensor:
        """Prepared images to logits. `seen` collects batch statistics where the view holds none."""
        return plans.head(view, self.features(plan, view, x, seen))

    def infer(self, plan: Plan, state: State, x: Tensor, by: str | None) -> dict[int, float]:
        """Belief in each live task for a batch of prepared images; 0 for all means none of them."""
        if by == "try-each":
            return try_each(self, plan, state, x)
        raise UserError(
            f"{self.title} cannot tell which task an image belongs to: name one of {_list(state)}, "
            "or ask with by='try-each', which runs every task and takes the surest"
        )

    # Moving a task out and in

    def deposit(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        """The task's bytes as they go into its vault file. The first word of a name is its kind."""
        return dict(state.tasks[task])

    def withdraw(self, plan: Plan, state: State, task: int, mode: Mode) -> State:
        """The state without the task; `mask` touches no shared byte, the others release what nobody else reads."""
        return state.without_task(task)

    def put_back(self, plan: Plan, state: State, task: int, deposit: Tensors) -> State:
        """The state with the task again, in its old place or as an overlay."""
        return state.with_task(task, deposit)

    def dependents(self, plan: Plan, state: State, task: int) -> dict[int, str]:
        """Other live tasks that read bytes of this one, and which."""
        return {}

    def remains(self, plan: Plan, state: State, task: int) -> int:
        """Bits in the state that belong to this task alone, also after it was forgotten."""
        return sum(8 * t.numel() * t.element_size() for t in state.tasks.get(task, {}).values())

    def built_on(self, deposit: Tensors, task: int) -> list[int]:
        """Tasks whose bytes a deposited task reads."""
        return []

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        """Which weights or units the task uses, as bools, for the picture of overlaps."""
        return {}


def entropy(logits: Tensor) -> Tensor:
    """Mean entropy of the answers."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()


def try_each(method: MaskMethod, plan: Plan, state: State, x: Tensor) -> dict[int, float]:
    """Runs every live task; the lower the entropy of its answers, the higher the belief. Sums to 1."""
    sure = []
    for task in sorted(state.tasks):
        view = method.view(plan, state, task)
        logits = plans.served(x, lambda rows, view=view: method.logits(plan, view, rows))
        sure.append(-entropy(logits) / torch.tensor(float(logits.shape[1])).log())
    belief = torch.stack(sure).softmax(0) if sure else torch.empty(0)
    return dict(zip(sorted(state.tasks), belief.tolist(), strict=True))


def _list(state: State) -> str:
    return ", ".join(map(str, sorted(state.tasks))) or "none (nothing is learned)"
