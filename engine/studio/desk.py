"""What a labeller's work leaves in memory: previews to slide along, and how samples look to the frozen generator."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine.core.errors import UserError
from engine.core.targets import Labels
from engine.directions.sight import Eye
from engine.directions.study import Study

PREVIEWS = 4
LOOKS = 4000  # samples, 16 kB each on the FFHQ base
BATCH = 16
FIGURES = 64


@dataclass(frozen=True)
class Place:
    """A model as it was looked at."""

    base: str
    deltas: tuple[str, ...]
    psi: float


class Desk:
    """Holds a few previews and many looks; the oldest go first. Pages share it, so it is locked."""

    def __init__(self) -> None:
        self._previews: OrderedDict[str, tuple[Place, Labels, Study]] = OrderedDict()
        self._looks: OrderedDict[tuple[Place, int], Tensor] = OrderedDict()
        self._figures: OrderedDict[Hashable, float] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, place: Place, target: Labels, found: Study) -> str:
        """Gives a token for `get`."""
        token = secrets.token_hex(8)
        with self._lock:
            self._previews[token] = (place, target, found)
            while len(self._previews) > PREVIEWS:
                self._previews.popitem(last=False)
        return token

    def get(self, token: str) -> tuple[Place, Labels, Study]:
        with self._lock:
            if token not in self._previews:
                raise UserError("this preview is too old; make it again")
            return self._previews[token]

    def once(self, key: Hashable, make: Callable[[], float]) -> float:
        """A figure that takes a while, made again only when it was forgotten."""
        if key not in self._figures:
            made = make()
            with self._lock:
                self._figures[key] = made
                while len(self._figures) > FIGURES:
                    self._figures.popitem(last=False)
            return made
        return self._figures[key]

    @torch.inference_mode()
    def looks(self, place: Place, model: nn.Module, eye: Eye, seeds: Sequence[int]) -> Tensor:
        """[n, F], standardised over these seeds; what was seen before is not looked at again."""
        with self._lock:
            found = {seed: self._looks[place, seed] for seed in seeds if (place, seed) in self._looks}
        new = [seed for seed in dict.fromkeys(seeds) if seed not in found]
        for start in range(0, len(new), BATCH):
            part = new[start : start + BATCH]
            rows = eye.look(model, model.map(model.sample_z(part), psi=place.psi)[:, 0]).looks
            found |= dict(zip(part, rows.half(), strict=True))
        with self._lock:
            self._looks |= {(place, seed): found[seed] for seed in new}
            while len(self._looks) > LOOKS:
                self._looks.popitem(last=False)
        stacked = torch.stack([found[seed] for seed in seeds]).float()
        return (stacked - stacked.mean(0)) / (stacked.std(0) + 1e-6)
