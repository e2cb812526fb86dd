"""Does it hide next door? Codes around those that showed it are drawn and judged."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from engine.audit import attacks
from engine.audit.aim import Aim
from engine.audit.attack import Attack, judged
from engine.core.events import Done, Progress, Task
from engine.identity.targets import nearby
from engine.redirect import Latents

REACH = 0.4  # mean radii: as far as an identity erasure takes neighbours along
EACH = 3  # neighbours to a try of the costlier attacks


def around(base: nn.Module, codes: Tensor, count: int, random: torch.Generator) -> Tensor:
    """The codes themselves, then steps from them of up to REACH towards random samples; `count` in all."""
    reach = REACH * Latents.of(base).radius * math.sqrt(base.num_ws)
    own = codes[:count]
    if len(own) == count:
        return own
    with torch.no_grad():
        who, offset = nearby(base, codes, count - len(own), reach, random)
    return torch.cat([own, codes[who] + offset])


@attacks.register("neighbours")
@dataclass(frozen=True)
class Neighbours(Attack):
    """The very codes, and steps of up to 0.4 mean radii from them."""

    name: ClassVar[str] = "neighbours"
    title: ClassVar[str] = "Neighbours in latent space"
    place: ClassVar[int] = 2

    def words(self, aim: Aim) -> tuple[str, str]:
        whose = "the person's code" if aim.kind == "face" else "the codes labelled as showing it"
        return f"draw {whose}, and codes up to {REACH:g} mean radii away", f"{self._count} codes"

    def attempt(self, model: nn.Module, base: nn.Module, aim: Aim) -> Task:
        yield Progress(0, 1, note="looking at neighbours")
        first = aim.codes[: self._count // 2] if aim.kind == "feature" else aim.codes
        yield Done(judged(model, around(base, first, self._count, self.random()), aim))

    @property
    def _count(self) -> int:
        return EACH * self.budget.tries
