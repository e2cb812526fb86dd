"""How much of what a teacher no longer answers can still be learnt from it (LIRF, Table 3)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.core.events import Done, Task, watch
from engine.data import ImageSet
from engine.distil import attention, divergence
from engine.fit import Fit, Loss, label_loss, logits

ALPHA, TEMPERATURE = 0.9, 4.0  # of the published distillation
ATTENTION = 10.0  # weight of the attention maps' squared distance, summed over positions


@dataclass(frozen=True)
class Lesson:
    """How a student is taught: by a teacher's answers or also its attention, with or without true labels."""

    kind: str  # "logit" | "attention"
    labels: bool

    def loss(self, teacher: nn.Module) -> Loss:
        """alpha Tm^2 KL + (1 - alpha) CE for answers, CE + attention for maps; without labels, KL takes CE's place."""

        def taught(student: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            with torch.no_grad():
                seen = teacher.split(teacher.stage_cut)[0](x)
                z_teacher = teacher.logits(x)
            shallow, deep = student.split(student.stage_cut)
            mine = shallow(x)
            z = deep(mine)
            soft = divergence(z, z_teacher, TEMPERATURE)
            if self.kind == "logit":
                return ALPHA * soft + (1 - ALPHA) * F.cross_entropy(z, y) if self.labels else soft
            gap = (attention(_fit(mine, seen)) - attention(seen)).square().sum(1).mean()
            return (F.cross_entropy(z, y) if self.labels else soft) + ATTENTION * gap

        return taught


def teach(student: nn.Module, train: ImageSet, test: ImageSet, fit: Fit, lesson: Lesson | None, teacher=None) -> Task:
    """Trains a student on all classes' images; Done holds its answers on the test set. No lesson: labels only."""
    loss = lesson.loss(teacher) if lesson else label_loss
    taught = yield from watch(fit.run(student, train, test, loss))
    yield Done(logits(taught, test))


def _fit(features: Tensor, like: Tensor) -> Tensor:
    """A student's map at its teacher's side."""
    if features.shape[2:] == like.shape[2:]:
        return features
    return F.interpolate(features, size=like.shape[2:], mode="bilinear", align_corners=False)
