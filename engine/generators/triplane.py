"""Three feature planes at points in space; on a CPU as one sparse product.

A point's features are the mean of a bilinear sample of each plane, so a weighted sum of texels. The third plane is read
at (z, x) where the second is read at (x, z): its transpose is added to the second, and eight texels remain. As rows of
channels they are summed many times as fast as `grid_sample` does it channel by channel. The gradient is the transposed
product.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

Sampler = Callable[[Tensor], Tensor]  # points [n, p, 3] to features [n, p, c]


def sample_planes(planes: Tensor, xyz: Tensor, box_warp: float) -> Tensor:
    """Features of points [n, p, 3] in planes [n, 3, c, h, w]: [n, 3, p, c]. There is no y-z plane, as published."""
    x, y, z = (xyz * (2 / box_warp)).unbind(2)
    places = torch.stack([x, y, x, z, z, x], 2).unflatten(2, (3, 2)).transpose(1, 2)  # [n, 3, p, (width, height)]
    found = F.grid_sample(
        planes.flatten(0, 1), places.flatten(0, 1)[:, None], padding_mode="zeros", align_corners=False
    )
    return found[:, :, 0].mT.unflatten(0, (-1, 3))


def sampler(planes: Tensor, box_warp: float) -> Sampler:
    """The mean of the planes at points, the planes laid out once for all of them."""
    if planes.device.type != "cpu":
        planes = planes.contiguous()
        return lambda xyz: sample_planes(planes, xyz, box_warp).mean(1)
    rows = texels(planes)
    return lambda xyz: sample(rows, xyz, box_warp)


def texels(planes: Tensor) -> Tensor:
    """Square planes [n, 3, c, s, s] as rows of channels [n, 2, s + 3, s + 3, c]. What lies outside is 0: one texel of
    it before and two behind are enough, since places are held between them."""
    both = torch.stack([planes[:, 0], planes[:, 1] + planes[:, 2].mT], 1) / 3
    return F.pad(both.permute(0, 1, 3, 4, 2), (0, 0, 1, 2, 1, 2))


def sample(rows: Tensor, xyz: Tensor, box_warp: float) -> Tensor:
    """Features [n, p, c] of points [n, p, 3] in the `texels` of planes that cover a cube of this side."""
    n, _, wide, _, channels = rows.shape
    index, weight = _corners(xyz, wide, box_warp)
    return _Sum.apply(rows.reshape(-1, channels), index, weight).unflatten(0, (n, -1))


@torch.no_grad()
def _corners(xyz: Tensor, wide: int, box_warp: float) -> tuple[Tensor, Tensor]:
    """Which rows make up each point, and their weights: [n p, 8]."""
    side = wide - 3
    place = ((xyz * (2 / box_warp) + 1) * side - 1) / 2
    place = place.clamp_(-1, side).add_(1)
    low = place.floor()
    above = place.sub_(low)
    x, y, z = low.int().unbind(2)
    start = torch.stack([y * wide + x, (z + wide) * wide + x], 2)
    start += 2 * wide**2 * torch.arange(len(xyz), device=xyz.device, dtype=torch.int32)[:, None, None]
    index = start[..., None] + start.new_tensor([0, 1, wide, wide + 1])
    share = torch.stack([1 - above, above], 3)  # of the lower and the upper neighbour, [n, p, 3, 2]
    weight = share[:, :, 1:, :, None] * share[:, :, :1, None, :]
    return index.view(-1, 8), weight.view(-1, 8)


class _Sum(torch.autograd.Function):
    """Weighted sums of rows."""

    @staticmethod
    def forward(ctx, rows, index, weight):
        ctx.save_for_backward(index, weight)
        ctx.count = len(rows)
        return F.embedding_bag(index, rows, per_sample_weights=weight, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        from scipy.sparse import csr_array

        index, weight = (saved.numpy() for saved in ctx.saved_tensors)
        starts = torch.arange(0, index.size + 1, 8, dtype=torch.int32).numpy()
        by_row = csr_array((weight.ravel(), index.ravel(), starts), shape=(len(index), ctx.count)).tocsc()
        points, ends, shares = (torch.from_numpy(part) for part in (by_row.indices, by_row.indptr, by_row.data))
        to_rows = F.embedding_bag(points, grad.contiguous(), ends[:-1], per_sample_weights=shares, mode="sum")
        return to_rows, None, None
