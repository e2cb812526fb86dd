"""Low-pass filters of StyleGAN3 and how they are applied: designed with a Kaiser window, separable or radial."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def low_pass(taps: int, cutoff: float, width: float, rate: float, *, radial: bool = False) -> Tensor | None:
    """[taps], or [taps, taps] if radial; None where a single tap changes nothing."""
    from scipy.signal import firwin, kaiser_atten, kaiser_beta
    from scipy.special import j1

    if taps == 1:
        return None
    if not radial:
        return torch.as_tensor(firwin(taps, cutoff, width=width, fs=rate), dtype=torch.float32)
    x = (np.arange(taps) - (taps - 1) / 2) / rate
    r = np.hypot(*np.meshgrid(x, x))
    jinc = j1(2 * np.pi * cutoff * r) / (np.pi * r)  # an even number of taps never meets r = 0
    window = np.kaiser(taps, kaiser_beta(kaiser_atten(taps, width / (rate / 2))))
    square = jinc * np.outer(window, window)
    return torch.as_tensor(square / square.sum(), dtype=torch.float32)


def upsample(x: Tensor, taps: Tensor | None, up: int, low: int, high: int) -> Tensor:
    """Zeros between the samples, `low` and `high` more at the sides (fewer if negative), then the separable filter.

    As a transposed conv no zero is multiplied; the padding becomes what is cut off or added at the sides.
    """
    if taps is None:
        return F.pad(x, (low, high, low, high))
    channels, n = x.shape[1], len(taps)
    row = (up * taps)[None, None, None].expand(channels, 1, 1, n)
    x = F.conv_transpose2d(x, row, stride=(1, up), groups=channels)
    x = F.conv_transpose2d(x, row.transpose(2, 3), stride=(up, 1), groups=channels)
    # A transposed conv reaches n - 1 to the left of the first sample, and n - up to the right of the last zero.
    left, right = low - (n - 1), high - (n - up)
    return F.pad(x, (left, right, left, right))


def downsample(x: Tensor, taps: Tensor | None, down: int) -> Tensor:
    """The filter where it fits entirely, then every `down`-th sample."""
    channels = x.shape[1]
    if taps is None:
        return x[:, :, ::down, ::down]
    if taps.ndim == 2:
        square = taps.flip(0, 1).expand(channels, 1, -1, -1)
        return F.conv2d(x, square, stride=down, groups=channels)
    row = taps.flip(0)[None, None, None].expand(channels, 1, 1, -1)
    x = F.conv2d(x, row, stride=(1, down), groups=channels)
    return F.conv2d(x, row.transpose(2, 3), stride=(down, 1), groups=channels)
