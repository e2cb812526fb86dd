"""From a photo in memory to the code of the person in it: find, align, guess, refine. Nothing is written."""

import numpy as np
import torch
from torch import Tensor, nn

from engine.core.events import Done, Progress, Task, watch
from engine.data import LatentBatch
from engine.faces import detect
from engine.inversion.project import Projection


def aligned(pixels: np.ndarray, face: int, size: int, like: Tensor) -> Tensor:
    """The chosen face of an HWC uint8 photo, aligned as FFHQ is: [1, 3, size, size] in [-1, 1]."""
    image = detect.aligned(pixels, size, face, like.device)
    return torch.from_numpy(image.copy()).to(like).permute(2, 0, 1)[None] / 127.5 - 1


def invert(
    base: nn.Module,
    pixels: np.ndarray,
    face: int = 0,
    projection: Projection | None = None,
    *,
    mirrored: bool = False,
) -> Task:
    """Done holds a LatentBatch, of the face or of its mirror image. A base with an encoder starts near and needs fewer
    steps."""
    yield Progress(0, 1, note="looking for the face")
    projection = projection or projection_for(base)
    photo = aligned(pixels, face, projection.size, base.w_avg)
    photo = photo.flip(-1) if mirrored else photo
    start = base.guess_codes(photo) if base.guess_codes else None
    found = yield from watch(projection.run(base, photo, start))
    yield Done(LatentBatch(found.w, "a photo"))


def projection_for(base: nn.Module) -> Projection:
    """At 128 px where the generator can, else at its size nearest to it; shorter from an encoder's guess."""
    size = min(base.sizes, key=lambda size: abs(size - 128))
    return Projection(steps=30, lr=0.12, size=size) if base.guess_codes else Projection(steps=60, size=size)
