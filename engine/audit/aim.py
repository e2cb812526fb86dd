"""What an audit looks for, and who looks: an attacker's eye that can be climbed, and a judge that had no part in it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from engine import device as devices

BATCH = 8
Eye = Callable[[Tensor], Tensor]  # pictures [n, 3, s, s] in [-1, 1] to one number each


@dataclass(frozen=True, eq=False)
class Aim:
    """A feature or a face. The judge sees it where its reading is above `bar`; the attacker's eye is differentiable and
    grows with it, 0 being about the boundary."""

    words: str  # “glasses”, this person
    kind: Literal["feature", "face"]
    pull: Eye
    reads: Eye
    bar: float
    attacker: str  # who they are, in words
    judge: str
    codes: Tensor  # [n, num_ws, w_dim], where the base shows it
    pictures: Tensor  # [n, 3, size, size], what the base shows there; for a photo, the photo
    size: int
    others: Tensor | None = None  # codes that do not show a feature
    psi: float = 1.0
    dtype: torch.dtype = torch.float32
    of_faces: bool = False  # recognisers can judge these pictures
    also: tuple[str, ...] = ()  # further features that the same run erased
    caveats: tuple[str, ...] = ()  # what a reader of the report must know

    def show(self, model: nn.Module, codes: Tensor) -> Tensor:
        """Pictures of codes [n, num_ws, w_dim]; with gradient."""
        with devices.computing(codes.device, self.dtype):
            return model.synth(codes, size=self.size).float()


@torch.no_grad()
def looked(model: nn.Module, codes: Tensor, aim: Aim) -> tuple[Tensor, Tensor]:
    """Pictures of codes, and what the judge reads in them."""
    pictures = torch.cat([aim.show(model, some) for some in codes.split(BATCH)])
    return pictures, torch.cat([aim.reads(some) for some in pictures.split(BATCH)])
