"""Cameras of EG3D: 25 numbers, cam2world 4x4 by rows (x right, y down, z forward), intrinsics 3x3 in picture sides."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

FOV_DEG = 18.837  # of the published face networks


def look_at(yaw: float, pitch: float, pivot: Sequence[float], radius: float) -> Tensor:
    """cam2world [4, 4] of a camera on a sphere around the origin that looks at `pivot`; yaw = pitch = 0 is frontal.

    Pitch is not an angle: it is linear in the cosine of the polar angle, so -0.2 raises the camera by 7.3 degrees.
    """
    v = min(max(math.pi / 2 + pitch, 1e-5), math.pi - 1e-5)
    theta, phi = math.pi / 2 + yaw, math.acos(1 - 2 * v / math.pi)
    across, toward = (math.sin(phi) * part(math.pi - theta) for part in (math.cos, math.sin))
    origin = radius * torch.tensor([across, math.cos(phi), toward], dtype=torch.float64)
    forward = _unit(torch.tensor(pivot, dtype=torch.float64) - origin)
    right = -_unit(torch.linalg.cross(torch.tensor([0.0, 1, 0], dtype=torch.float64), forward))
    up = _unit(torch.linalg.cross(forward, right))
    camera = torch.eye(4, dtype=torch.float64)
    camera[:3] = torch.stack([right, up, forward, origin], 1)
    return camera.float()


def intrinsics(fov_deg: float = FOV_DEG) -> Tensor:
    """[3, 3]; the constants are the published roundings of pi and sqrt(2)."""
    focal = 1 / (math.tan(fov_deg * 3.14159 / 360) * 1.414)
    return torch.tensor([[focal, 0, 0.5], [0, focal, 0.5], [0, 0, 1]])


def rays(camera: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Origins and unit directions [n, side * side, 3] through the pixel centres, rows first, of cameras [n, 25]."""
    pose, lens = camera[:, :16].view(-1, 4, 4), camera[:, 16:].view(-1, 3, 3)
    fx, fy, cx, cy, skew = (lens[:, i, j, None] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2), (0, 1)))
    centres = (torch.arange(side, device=camera.device, dtype=camera.dtype) + 0.5) / side
    v, u = (grid.flatten() for grid in torch.meshgrid(centres, centres, indexing="ij"))
    x = (u - cx + cy * skew / fy - skew * v / fy) / fx  # [n, rays]
    y = (v - cy) / fy
    directions = torch.stack([x, y, torch.ones_like(x)], 2) @ pose[:, :3, :3].mT
    return pose[:, None, :3, 3].expand_as(directions), directions / directions.norm(dim=2, keepdim=True)


def _unit(x: Tensor) -> Tensor:
    return x / x.norm()
