"""Loaded models: bases once, composed ones in a small cache, and pictures of them as plain arrays."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from engine import device as devices
from engine.delta import compose, fingerprint
from engine.generators import bases
from engine.store import Store, checked

BASES, COMPOSED = 8, 4  # in memory at one time
BATCH = 8  # pictures per forward pass


class Models:
    """Loads on first use, under one lock, so that two pages never load the same weights twice."""

    def __init__(self, store: Store, device: torch.device) -> None:
        self.store, self.device = store, device
        self._bases: OrderedDict[str, nn.Module] = OrderedDict()
        self._facts: dict[str, dict[str, Any]] = {}
        self._composed: OrderedDict[tuple[str, tuple[str, ...]], nn.Module] = OrderedDict()
        self._prints: dict[tuple[str, tuple[str, ...]], str] = {}
        self._lock = threading.RLock()

    def base(self, name: str) -> nn.Module:
        with self._lock:
            if name not in self._bases:
                self._bases[name] = self._load(name).to(self.device).eval().requires_grad_(False)
                while len(self._bases) > BASES:
                    self._bases.popitem(last=False)
            self._bases.move_to_end(name)
            return self._bases[name]

    def _load(self, name: str) -> nn.Module:
        from engine.bases import load_base

        path = self.store.bases / f"{name}.safetensors"
        if name not in bases and checked(name) and path.exists():
            return load_base(path)
        return bases[name].load()

    def facts(self, name: str) -> dict[str, Any]:
        """What one may want to know of a base before using it; a base does not change, so it is looked at once."""
        with self._lock:
            if name not in self._facts:
                model = self.base(name)
                self._facts[name] = {
                    "sizes": list(model.sizes),
                    "parameters": sum(parameter.numel() for parameter in model.parameters()),
                    "bytes": sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values()),
                    "fingerprint": fingerprint(model),
                    "is_3d": model.is_3d,
                }
            return self._facts[name]

    def fingerprint(self, name: str, deltas: Sequence[str] = ()) -> str:
        """Of a base, or of a base with deltas; worked out once."""
        if not deltas:
            return self.facts(name)["fingerprint"]
        key = (name, tuple(deltas))
        with self._lock:
            if key not in self._prints:
                self._prints[key] = fingerprint(self.with_deltas(name, deltas))
            return self._prints[key]

    def is_ready(self, name: str, deltas: Sequence[str]) -> bool:
        """Whether its fingerprint is known, so that asking for it takes no time."""
        return (name, tuple(deltas)) in self._prints or (not deltas and name in self._facts)

    def with_deltas(self, name: str, deltas: Sequence[str]) -> nn.Module:
        """The base with these deltas applied in order; the last few are kept ready."""
        if not deltas:
            return self.base(name)
        key = (name, tuple(deltas))
        with self._lock:
            if key not in self._composed:
                self._composed[key] = compose(self.base(name), [self.store.delta(delta) for delta in deltas]).eval()
                while len(self._composed) > COMPOSED:
                    self._composed.popitem(last=False)
            self._composed.move_to_end(key)
            return self._composed[key]

    def drop(self, name: str) -> None:
        """Forgets what is in memory of a base, after it was deleted or imported anew."""
        with self._lock:
            self._bases.pop(name, None)
            self._facts.pop(name, None)
            self.drop_composed(lambda key: key[0] == name)

    def drop_composed(self, matches: Any) -> None:
        with self._lock:
            for known in (self._composed, self._prints):
                for key in [key for key in known if matches(key)]:
                    del known[key]


@torch.inference_mode()
def pictures(model: nn.Module, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> list[np.ndarray]:
    """HWC uint8 pictures of codes, a few at a time so that memory stays flat. Below the full size, which is an
    approximation anyway, the quick number type serves."""
    dtype = devices.quick_type(w.device) if size and size < model.size else torch.float32
    images = []
    with devices.computing(w.device, dtype):
        for part in w.split(BATCH):
            images.extend(to_pixels(model.synth(part, size=size, yaw=yaw).float()))
    return images


def to_pixels(image: Tensor) -> np.ndarray:
    """[-1, 1] floats, NCHW, to uint8, NHWC."""
    return ((image.detach().clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).cpu().numpy()
