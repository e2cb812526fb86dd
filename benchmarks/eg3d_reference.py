"""EG3D with the weights of a model of ours, as its published code runs it: what we compare with.

Planes and enlargement by the reference StyleGAN2; all rays at once, and everything kept for the backward pass.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import stylegan2_reference
from engine.generators.cameras import rays
from engine.generators.eg3d import CHANNELS
from engine.generators.render import Draws, coarse_depths, see
from engine.generators.triplane import sample_planes


def planes_of(model: nn.Module, w: Tensor) -> Tensor:
    return stylegan2_reference.synthesise(model.backbone, w)


def picture_of(model: nn.Module, w: Tensor, size: int, yaw: float) -> Tensor:
    """With the draws that our model makes."""
    planes = planes_of(model, w)
    side, options = model.config["neural_rendering_resolution"], model.rendering
    draws = Draws.of(torch.Generator().manual_seed(0), 1, side * side, options).to(planes)
    where = rays(model.camera(len(w), yaw).to(planes), side)
    coarse = coarse_depths(*where, options, draws.depth.expand(len(w), -1, -1))
    fine = draws.importance.expand(len(w), -1, -1)
    split = planes.unflatten(1, (3, CHANNELS))

    def sample(points: Tensor) -> Tensor:
        return sample_planes(split, points, options.box_warp).mean(1)

    seen = see(sample, partial(decode, model.decoder), *where, coarse, fine, options)
    view = seen[0].mT.unflatten(2, (side, side))
    return enlarge(model.superresolution, view, w) if size == model.size else view[:, :3]


def decode(decoder: nn.Module, features: Tensor) -> tuple[Tensor, Tensor]:
    """Layer by layer."""
    x = decoder.net(features.flatten(0, -2)).unflatten(0, features.shape[:-1])
    return torch.sigmoid(x[..., 1:]) * 1.002 - 0.001, x[..., 0]


def enlarge(module: nn.Module, view: Tensor, w: Tensor) -> Tensor:
    """Without noise, and for views that are not larger than its input."""
    if view.shape[2] < module.side:
        sides = (module.side, module.side)
        view = F.interpolate(view, sides, mode="bilinear", align_corners=False, antialias=module.antialias)
    codes = w[:, -1:].expand(-1, 3, -1)
    x, image = stylegan2_reference.run_block(module.block0, view, view[:, :3], codes)
    return stylegan2_reference.run_block(module.block1, x, image, codes)[1]
