"""Ordinary training of a classifier, with or without a teacher. The original of every experiment comes from here."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.augment import batches, to_float
from engine.core.events import Done, Progress, Task
from engine.core.knobs import check, knob
from engine.data import ImageSet

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]  # (network, images, labels) -> scalar


def label_loss(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(network.logits(x), y)


@dataclass(frozen=True)
class Fit:
    """SGD with Nesterov momentum; the rate rises over the first quarter and falls to zero."""

    epochs: int = knob(20, "passes over the training images", min=1, max=500)
    lr: float = knob(0.2, "highest learning rate", min=1e-5, max=2)
    batch: int = knob(128, "images per step", min=2, max=1024)
    decay: float = knob(5e-4, "weight decay", min=0, max=0.1)
    shift: int = knob(2, "pixels by which images are moved at random", min=0, max=16)
    flip: bool = knob(False, "mirror half of the images")
    seed: int = knob(0, "seed of every random draw", min=0)

    def __post_init__(self) -> None:
        check(self)

    def run(self, network: nn.Module, train: ImageSet, validation: ImageSet, loss: Loss = label_loss) -> Task:
        """Done holds a trained copy; validation is only watched, the last epoch is what is kept."""
        student = copy.deepcopy(network).to(memory_format=torch.channels_last).requires_grad_(True).train()
        device = next(student.parameters()).device
        optimiser = torch.optim.SGD(student.parameters(), self.lr, momentum=0.9, weight_decay=self.decay, nesterov=True)
        random = torch.Generator().manual_seed(self.seed)
        per_epoch = len(list(torch.arange(len(train)).split(self.batch)))
        total = self.epochs * per_epoch
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, self.lr, total_steps=total + 1, pct_start=0.25)
        for epoch in range(1, self.epochs + 1):
            value = torch.zeros(())
            for x, y in batches(train, self.batch, random, shift=self.shift, flip=self.flip):
                value = loss(student, x.to(device), y.to(device))
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
                schedule.step()
            scalars = {"loss": value.item(), "validation": 100 * accuracy(student, validation)}
            if (yield Progress(epoch, self.epochs, scalars, note="training")):
                break
        yield Done(student.eval().requires_grad_(False))


@torch.no_grad()
def logits(network: nn.Module, data: ImageSet, batch: int = 256) -> Tensor:
    """Answers for a whole set, in evaluation mode."""
    was_training, device = network.training, next(network.parameters()).device
    network.eval()
    parts = [network.logits(to_float(x).to(device)).cpu() for x in data.x.split(batch)]
    network.train(was_training)
    return torch.cat(parts)


def accuracy(network: nn.Module, data: ImageSet) -> float:
    """Correct count over total count, among all classes."""
    return (logits(network, data).argmax(1) == data.y).float().mean().item()
