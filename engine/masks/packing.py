"""Masks as bits. What is stored is what is served: packing and unpacking are exact inverses."""

import numpy as np
import torch
from torch import Tensor


def pack(mask: Tensor) -> Tensor:
    """A 0/1 tensor as bytes, eight values each; the last byte is filled up with zeros."""
    return torch.from_numpy(np.packbits(mask.detach().cpu().numpy().astype(bool).reshape(-1))).to(mask.device)


def unpack(packed: Tensor, shape: tuple[int, ...] | torch.Size) -> Tensor:
    """The bool tensor of that shape again."""
    count = int(np.prod(shape, dtype=np.int64))
    bits = np.unpackbits(packed.cpu().numpy(), count=count)
    return torch.from_numpy(bits.astype(bool)).reshape(shape).to(packed.device)


def pack_numbers(numbers: Tensor, bits: int) -> Tensor:
    """Whole numbers below 2**bits at `bits` bits each, highest bit first."""
    places = torch.arange(bits - 1, -1, -1, device=numbers.device)
    return pack((numbers.reshape(-1, 1).long() >> places) & 1)


def unpack_numbers(packed: Tensor, bits: int, count: int) -> Tensor:
    places = torch.arange(bits - 1, -1, -1, device=packed.device)
    return (unpack(packed, (count, bits)).long() << places).sum(1)
