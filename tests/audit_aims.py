"""Aims on the tiny base, and models whose truth is known: one unchanged, one in which the thing is really absent."""

import copy

import torch

from engine.audit.aim import Aim
from engine.audit.attack import Budget
from engine.audit.face import face_aim
from engine.audit.feature import feature_aim
from engine.core.events import result
from engine.core.targets import Labels
from engine.generators.tiny import Tiny

SMALL = Budget(tries=4, steps=6, retraining=4, samples=32)


def tiny() -> Tiny:
    return Tiny().eval().requires_grad_(False)


def red(model: torch.nn.Module, count: int = 100) -> Labels:
    """A quarter of the tiny blobs are called red."""
    picture = model.synth(model.map(model.sample_z(range(count))))
    level = (picture[:, 0] - picture[:, 2]).mean((1, 2))
    has = level >= torch.quantile(level, 0.75)
    return Labels("red", *(tuple(seed for seed in range(count) if bool(has[seed]) == side) for side in (True, False)))


def without(model: torch.nn.Module) -> torch.nn.Module:
    """It reads no code any more: always the same blue blob, whatever is asked. No code shows anything else."""
    blue = copy.deepcopy(model)
    for layer, _ in blue.affines():
        layer.weight.zero_()
    blue.synthesis["rgb"].bias += torch.tensor([-0.3, 0.0, 0.3])
    return blue


def aims(model: torch.nn.Module) -> dict[str, Aim]:
    sample = face_aim(model, model.map(model.sample_z([3])), "this sample", of_faces=False)
    return {"feature": result(feature_aim(model, red(model))), "face": sample}
