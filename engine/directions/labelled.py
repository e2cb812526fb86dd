"""What a person has ticked, as codes, and whether it is enough."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.data import LatentBatch, Request

LEAST = 10  # samples on each side, from random pages


@dataclass(frozen=True)
class Labelled:
    """Codes with and without a feature. `chosen` ones (having first) were picked actively: no threshold sees them."""

    name: str
    having: Tensor  # [p, D]
    lacking: Tensor  # [n, D]
    chosen: Tensor  # [p + n] bool

    @classmethod
    def of(cls, name: str, having: Tensor, lacking: Tensor, chosen: Tensor | None = None) -> "Labelled":
        total = len(having) + len(lacking)
        chosen = having.new_zeros(total) if chosen is None else chosen
        return cls(name, having, lacking, chosen.to(having.device).bool())

    @property
    def random(self) -> "Labelled":
        """Only what was drawn at random."""
        p, drawn = len(self.having), ~self.chosen
        return Labelled.of(self.name, self.having[drawn[:p]], self.lacking[drawn[p:]])

    @property
    def codes(self) -> Tensor:
        return torch.cat([self.having, self.lacking])

    @property
    def truth(self) -> Tensor:
        """1 for having, 0 for lacking, in the order of `codes`."""
        return torch.cat([self.having.new_ones(len(self.having)), self.lacking.new_zeros(len(self.lacking))])

    def check(self) -> "Labelled":
        """Refuses labels that are too few to train on."""
        missing = shortage(len(self.random.having), len(self.random.lacking))
        if missing:
            raise UserError(f"“{self.name}”: {missing}")
        return self


def shortage(having: int, lacking: int) -> str:
    """What is still to be labelled, in words; empty when there is enough."""
    if having and not lacking:
        return "all labels say “with”; add some without"
    if lacking and not having:
        return "all labels say “without”; add some with"
    wants = [(LEAST - having, "with"), (LEAST - lacking, "without")]
    words = " and ".join(f"{count} more {side}" for count, side in wants if count > 0)
    return f"label {words}, on pages drawn at random ({LEAST} of each are needed)" if words else ""


def features_of(request: Request) -> tuple[list[Labelled], list[Labelled]]:
    """The features to erase and the ones to protect, from a request's codes.

    `extra` may hold `chosen` for the first feature, and whole further ones as `also.<name>.having` / `.lacking` /
    `.chosen` and `keep.<name>.…`.
    """
    assert isinstance(request.forget, LatentBatch) and isinstance(request.retain, LatentBatch)
    first = Labelled.of(request.label, request.forget.w[:, 0], request.retain.w[:, 0], request.extra.get("chosen"))
    return [first, *_group(request.extra, "also")], _group(request.extra, "keep")


def _group(extra: Mapping[str, Tensor], kind: str) -> list[Labelled]:
    names = [
        key[len(kind) + 1 : -len(".having")] for key in extra if key.startswith(f"{kind}.") and key.endswith(".having")
    ]
    found = []
    for name in names:
        having, lacking = (extra[f"{kind}.{name}.{side}"] for side in ("having", "lacking"))
        found.append(Labelled.of(name, having, lacking, extra.get(f"{kind}.{name}.chosen")))
    return found
