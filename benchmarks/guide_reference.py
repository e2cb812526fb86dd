"""GUIDE's training step as its published code takes it, on any of our generators: the yardstick of `guide_step`.

One sample at a time; features and picture by two passes; everything of the frozen side made anew; LPIPS of both
pictures; a recogniser whose weights ask for gradients, though not for those of the target; one backward pass over the
sum. StyleGAN2, EG3D and MobileStyleGAN run as their published code writes them unless it is asked otherwise, other
generators as ours do. The formulas of the losses are ours, and LPIPS is the small one for both.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import eg3d_reference, mobile_reference, stylegan2_reference
from engine import assets, losses
from engine.faces.recogniser_a import MobileFaceNet
from engine.generators.eg3d import EG3D
from engine.generators.mobile import Mobile
from engine.generators.stylegan2 import StyleGAN2
from engine.methods.guide import Guide


def features_of(model: nn.Module, w: Tensor) -> Tensor:
    match model:
        case EG3D():
            return eg3d_reference.planes_of(model, w)
        case StyleGAN2():
            return stylegan2_reference.render(model, w, model.sizes[0])[0]
        case Mobile():
            return mobile_reference.features(model, w)
    return model.features(w)


def picture_of(model: nn.Module, w: Tensor, size: int, yaw: float = 0.0) -> Tensor:
    match model:
        case EG3D():
            return eg3d_reference.picture_of(model, w, size, yaw)
        case StyleGAN2():
            return stylegan2_reference.render(model, w, size)[1]
        case Mobile():
            return mobile_reference.picture(model, w, size)
    return model.synth(w, size=size)


class PublishedStep:
    """`loss` of the same codes as one step of ours looks at: the people, their neighbours, then random faces. Pictures
    are made at the side `made` and looked at, area-downscaled, at the side `size`; by our own networks if `by_ours`."""

    def __init__(self, knobs: Guide, base: nn.Module, size: int, made: int, *, by_ours: bool = False) -> None:
        self.knobs, self.base, self.size, self.made, self.by_ours = knobs, base, size, made, by_ours
        self.percept = losses.lpips("alex", base.w_avg.device)
        self.recognise = assets.network(MobileFaceNet, "recogniser-a", base.w_avg.device).requires_grad_(True)

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
        inner = self.features(student, mine)
        with torch.no_grad():
            frozen = self.features(self.base, theirs)
        features = (inner - frozen).square().flatten(1).mean(1)
        percept, picture, target = self.perceptual(student, mine, theirs, yaw)
        known = self.recognise.of_ffhq(target).detach()
        alike = torch.cosine_similarity(self.recognise.of_ffhq(picture), known)
        return self.knobs.feature_weight * features + percept + self.knobs.identity_weight * (1 - alike)

    def perceptual(self, student: nn.Module, mine: Tensor, theirs: Tensor, yaw: float) -> tuple[Tensor, Tensor, Tensor]:
        picture = self.picture(student, mine, yaw)
        with torch.no_grad():
            target = self.picture(self.base, theirs, yaw)
        return self.percept(picture, target), picture, target

    def features(self, model: nn.Module, w: Tensor) -> Tensor:
        if self.by_ours:
            return next(x for x in model.maps(w) if x.shape[1] == 32).permute(0, 3, 1, 2)  # no picture is drawn for it
        return features_of(model, w)

    def picture(self, model: nn.Module, w: Tensor, yaw: float) -> Tensor:
        image = model.synth(w, size=self.made, yaw=yaw) if self.by_ours else picture_of(model, w, self.made, yaw)
        return F.adaptive_avg_pool2d(image, self.size)
