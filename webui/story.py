"""What a run's events add up to: where it stands, how long it will take, its curves and its latest pictures."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

RECENT = 24  # events in the moving mean of the time left
POINTS = 120  # per curve
PATIENCE = 0.05  # no time left is told before this share is done


class Story:
    """Fed with a run's events, oldest first. A change of note or total is a new chapter with its own clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._heard = clock, 0.0
        self.step = self.total = self.seen = self.snapshot = 0
        self.note = ""
        self.curves: dict[str, list[tuple[int, float]]] = {}
        self.images: dict[str, str] = {}  # name -> file
        self.images_step = 0
        self.last = 0.0  # the run's time of the last step
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)

    def feed(self, n: int, data: Mapping[str, Any]) -> None:
        self.seen, self._heard = n, self._clock()
        if "snapshot" in data:
            self.snapshot = data["snapshot"]
        if "step" not in data:
            return
        note = data.get("note", "")
        is_steady = not self._recent or self._recent[-1][0] <= data["t"]  # a resumed run has a clock of its own
        if (note, data["total"]) != (self.note, self.total) or data["step"] < self.step or not is_steady:
            self._recent.clear()
        self.step, self.total, self.note = data["step"], data["total"], note
        self.last = data["t"]
        self._recent.append((self.last, self.step))
        for name, value in data.get("scalars", {}).items():
            self._draw(name, value)
        if data.get("images"):
            self.images, self.images_step = dict(data["images"]), self.step

    def _draw(self, name: str, value: float) -> None:
        curve = [point for point in self.curves.get(name, []) if point[0] < self.step]  # a resumed run steps back
        curve.append((self.step, value))
        self.curves[name] = curve if len(curve) <= 2 * POINTS else curve[::2]

    @property
    def share(self) -> float:
        return self.step / self.total if self.total else 0.0

    def left(self) -> float | None:
        """Seconds to the end of this chapter by the mean of the last steps; None until it can be known. Between two
        steps they are counted down by a clock that nobody can set."""
        if self.share < PATIENCE or len(self._recent) < 2:
            return None
        (first, a), (last, b) = self._recent[0], self._recent[-1]
        if b <= a:
            return None
        return max(0.0, (self.total - b) * (last - first) / (b - a) - (self._clock() - self._heard))


def pair_up(images: Mapping[str, str]) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """(label, before, after) of pictures named before[-x] and after[-x], and the rest with their names."""
    pairs, alone = [], []
    for name, picture in images.items():
        kind, _, label = name.partition("-")
        if kind == "before" and (after := images.get(name.replace("before", "after", 1))):
            pairs.append((label.replace("-", " "), picture, after))
        elif not (kind == "after" and name.replace("after", "before", 1) in images):
            alone.append((name, picture))
    return pairs, alone
