"""One look at a model's output for a batch of codes, and the looks of the frozen side that need not be taken twice."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine import losses, rounded


@dataclass(frozen=True)
class View:
    """What the losses compare: inner features, LPIPS features and the recogniser's vector, one row per code. A glance
    has the LPIPS features alone."""

    features: Tensor
    percept: tuple[Tensor, ...]
    vector: Tensor

    @staticmethod
    def join(views: Sequence["View"]) -> "View":
        percept = tuple(torch.cat(parts) for parts in zip(*(view.percept for view in views), strict=True))
        return View(torch.cat([v.features for v in views]), percept, torch.cat([v.vector for v in views]))


class Eye:
    """Takes views at one size, of generators whose gradients are computed in one number type; the recogniser looks only
    if its weight is not 0."""

    def __init__(self, model: nn.Module, size: int, *, with_identity: bool, dtype: torch.dtype = torch.float32) -> None:
        device = model.w_avg.device
        self.size, self.dtype, self.percept = size, dtype, losses.lpips("alex", device)
        self.recognise = losses.identity if with_identity else None

    def look(self, model: nn.Module, w: Tensor, yaw: float = 0.0, *, glance: bool = False) -> View:
        with rounded.gradients(self.dtype):
            features, image = model.render(w, size=self.size, yaw=yaw)
            nothing = image.new_zeros(len(w), 1)
            vector = self.recognise(image) if self.recognise and not glance else nothing
        return View(nothing if glance else features, self.percept.features(image), vector)

    def distances(self, a: View, b: View) -> tuple[Tensor, Tensor, Tensor]:
        """Per code: feature MSE, LPIPS, 1 - cosine."""
        features = losses.mean_square(a.features, b.features)
        identity = 1 - torch.cosine_similarity(a.vector, b.vector) if self.recognise else torch.zeros_like(features)
        return features, self.percept.distance(a.percept, b.percept), identity


class Frozen:
    """Views of a model that does not change, by key: the second time costs nothing."""

    def __init__(self, model: nn.Module, eye: Eye) -> None:
        self.model, self.eye = model, eye
        self._kept: dict[object, View] = {}

    @property
    def count(self) -> int:
        """How many are kept."""
        return len(self._kept)

    @torch.no_grad()
    def views(self, keys: Sequence[object | None], w: Tensor, yaw: float = 0.0, *, glance: bool = False) -> View:
        """One view per code; a key of None is looked at anew and not kept. Kept views are taken one by one, so that
        they have the same bits whatever else was asked for: a resumed run must not differ."""
        if all(key is None for key in keys):
            return self.eye.look(self.model, w, yaw, glance=glance)
        return View.join([self._view(key, code[None], yaw, glance) for key, code in zip(keys, w, strict=True)])

    def _view(self, key: object | None, w: Tensor, yaw: float, glance: bool) -> View:
        if key is None:
            return self.eye.look(self.model, w, yaw, glance=glance)
        if (key, yaw, glance) not in self._kept:
            self._kept[key, yaw, glance] = self.eye.look(self.model, w, yaw, glance=glance)
        return self._kept[key, yaw, glance]
