"""tensorflow's "same" padding, for networks whose weights were trained with it."""

from torch import Tensor
from torch.nn import functional as F


def pad_same(x: Tensor, *, kernel: int = 3, stride: int = 1, value: float = 0.0) -> Tensor:
    """Pads [n, c, h, w] so that the output has ceil(side / stride); an odd missing pixel is added at the far side."""
    missing = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in (x.shape[3], x.shape[2])]
    left, top = (total // 2 for total in missing)
    return F.pad(x, (left, missing[0] - left, top, missing[1] - top), value=value)
