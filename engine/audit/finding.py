"""What one attack found on two models, as plain as it can be said."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from engine.evaluation.shares import Share


@dataclass(frozen=True)
class Figure:
    """A measured number with its 95 % interval; `chance` is what somebody who knows nothing would get."""

    value: float
    low: float
    high: float
    chance: float

    def plain(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Side:
    """One model under an attack: tries that succeeded, or a figure; the best picture; the judge's mean reading."""

    outcome: Share | Figure
    picture: np.ndarray | None = field(default=None, repr=False)
    reading: float | None = None
    steps: int | None = None  # of retraining, until it was back

    @property
    def scale(self) -> list[float]:
        """Value, low and high in per cent of what could be."""
        found = self.outcome
        low, high = found.interval if isinstance(found, Share) else (found.low, found.high)
        return [100 * found.value, 100 * low, 100 * high]

    def plain(self) -> dict[str, Any]:
        facts = self.outcome.plain() | {"reading": self.reading, "steps": self.steps, "scale": self.scale}
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True)
class Finding:
    """One attack with the same budget on the base and on the unlearned model, or why it was not made."""

    name: str
    title: str
    tried: str  # in words
    budget: str
    seeds: str
    before: Side | None = None
    after: Side | None = None
    skipped: str = ""

    @property
    def pictures(self) -> Mapping[str, np.ndarray]:
        """The best try on either side."""
        sides = {"before": self.before, "after": self.after}
        return {name: side.picture for name, side in sides.items() if side is not None and side.picture is not None}

    def plain(self) -> dict[str, Any]:
        """For JSON, without the pictures."""
        words = ("name", "title", "tried", "budget", "seeds", "skipped")
        facts = {word: getattr(self, word) for word in words}
        sides = {"before": self.before, "after": self.after}
        return facts | {name: side.plain() for name, side in sides.items() if side is not None}
