"""GUIDE's training step as its published code takes it, on any of our generators: the yardstick of `guide_step`.

One sample at a time; features and picture by two passes; everything of the frozen side made anew; LPIPS of both
pictures; a recogniser whose weights ask for gradients; one backward pass over the sum. The formulas are ours.
"""

import copy

import torch
from torch import Tensor, nn

from engine import losses
from engine.faces.recogniser_a import recogniser_a
from engine.methods.guide import Guide


class PublishedStep:
    """`loss` of the same codes as one step of ours looks at: the people, their neighbours, then random faces."""

    def __init__(self, knobs: Guide, base: nn.Module, size: int) -> None:
        self.knobs, self.base, self.size = knobs, base, size
        self.percept = losses.lpips("alex", base.w_avg.device)
        self.recognise = copy.deepcopy(recogniser_a(base.w_avg.device)).requires_grad_(True)

    def loss(self, student: nn.Module, people: int, here: Tensor, there: Tensor, yaw: float = 0.0) -> Tensor:
        knobs, near = self.knobs, people + self.knobs.neighbours
        local, adjacency, kept = [], [], []
        for index, (mine, theirs) in enumerate(zip(here.split(1), there.split(1), strict=True)):
            if index < near:
                (local if index < people else adjacency).append(self.reconstruction(student, mine, theirs, yaw))
            else:
                kept.append(self.perceptual(student, mine, theirs, yaw)[0])
        parts = (local, 1.0), (adjacency, knobs.adjacency_weight), (kept, knobs.global_weight)
        return sum(weight * torch.cat(part).mean() for part, weight in parts if part)

    def reconstruction(self, student: nn.Module, mine: Tensor, theirs: Tensor, yaw: float) -> Tensor:
        inner = student.features(mine)
        with torch.no_grad():
            frozen = self.base.features(theirs)
        features = (inner - frozen).square().flatten(1).mean(1)
        percept, picture, target = self.perceptual(student, mine, theirs, yaw)
        alike = torch.cosine_similarity(self.recognise.of_ffhq(picture), self.recognise.of_ffhq(target))
        return self.knobs.feature_weight * features + percept + self.knobs.identity_weight * (1 - alike)

    def perceptual(self, student: nn.Module, mine: Tensor, theirs: Tensor, yaw: float) -> tuple[Tensor, Tensor, Tensor]:
        picture = student.synth(mine, size=self.size, yaw=yaw)
        with torch.no_grad():
            target = self.base.synth(theirs, size=self.size, yaw=yaw)
        return self.percept(picture, target), picture, target
