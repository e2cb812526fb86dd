"""One photo and the person in it, before anything is erased: faces to pick from, the face's code, where it would go.

Photos and codes stay in memory, a few of them, each under a token that only its owner can use.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.core.errors import UserError
from engine.core.events import Done, Progress
from engine.core.knobs import build
from engine.core.targets import People, Photo, Seeds
from engine.faces import align, detect
from engine.faces.photo import open_photo
from engine.inversion.photo import invert
from engine.methods.guide import Guide, sensible_size
from engine.models import Models, pictures
from engine.redirect import Latents
from engine.studio.forgetting import LOCAL

HELD = 16  # people in memory at one time
MOST_OTHERS = 8


@dataclass(frozen=True, eq=False)
class Portrait:
    """Somebody on the desk. A generated person has seeds and no photo."""

    owner: str
    base: str
    deltas: tuple[str, ...]
    pixels: np.ndarray | None = None
    faces: tuple[detect.Face, ...] = ()
    others: tuple[np.ndarray, ...] = ()
    seed: int | None = None
    face: int = 0
    w: Tensor | None = None  # [1, num_ws, w_dim] once it is found


@dataclass(frozen=True)
class Faces:
    """What was found in a photo: boxes x1 y1 x2 y2 as shares of its width and height, the largest face first."""

    token: str
    boxes: tuple[tuple[float, float, float, float], ...]


class Portraits:
    """The part of the Studio that looks at a person before they are erased."""

    models: Models
    device: torch.device

    def open_portrait(self, content: bytes, base: str, *, deltas: Sequence[str] = (), owner: str = LOCAL) -> Faces:
        """Finds the faces in a photo's bytes and holds it in memory. A photo without a face is refused."""
        pixels = open_photo(content)
        faces = detect.find(pixels, self.device)
        if not faces:
            raise detect.NoFace("No face found. Use a photo that shows the face from the front, in good light.")
        token = self._portraits.put(Portrait(owner, base, tuple(deltas), pixels, tuple(faces)))
        height, width = pixels.shape[:2]
        sides = np.array([width, height, width, height])
        boxes = [tuple((face.box / sides).clip(0, 1).tolist()) for face in faces]
        return Faces(token, tuple(boxes))

    def generated_portrait(self, seed: int, base: str, *, deltas: Sequence[str] = (), owner: str = LOCAL) -> str:
        """A person the generator made up; their code is known."""
        model = self.models.with_deltas(base, deltas)
        with torch.inference_mode():
            w = model.map(model.sample_z([seed])).clone()
        return self._portraits.put(Portrait(owner, base, tuple(deltas), seed=seed, w=w))

    def add_other_photo(self, token: str, content: bytes, *, owner: str = LOCAL) -> int:
        """Another photo of the same person, for the check alone; gives how many there are."""
        held, pixels = self._portraits.get(token, owner), open_photo(content)
        if len(held.others) >= MOST_OTHERS:
            raise UserError(f"{MOST_OTHERS} other photos are enough; the check would take too long with more")
        if not detect.find(pixels, self.device):
            raise detect.NoFace("No face found in this other photo; it is not used. Try another one.")
        self._portraits.change(token, others=(*held.others, pixels))
        return len(held.others) + 1

    def portrait_pixels(
        self, token: str, face: int | None = None, *, size: int = 256, owner: str = LOCAL
    ) -> np.ndarray:
        """The photo as it came, or one face of it as the generator would show it."""
        held = self._portraits.get(token, owner)
        if held.pixels is None:
            raise UserError("this person came without a photo")
        return held.pixels if face is None else align.ffhq(held.pixels, held.faces[face].points, size)

    def portrait_seed(self, token: str, *, owner: str = LOCAL) -> int | None:
        """The seed of a generated person; None for one who came by photo."""
        return self._portraits.get(token, owner).seed

    def found_pixels(self, token: str, *, owner: str = LOCAL) -> np.ndarray:
        """The person as the generator knows them."""
        return self._shown(token, owner, None, [0.0])[0]

    def find_person(self, token: str, face: int = 0, *, owner: str = LOCAL) -> Iterator[Progress | np.ndarray]:
        """Looks for the code of a face. Yields Progress (words, step, pictures) and ends with the found picture."""
        held = self._portraits.get(token, owner)
        model = self.models.with_deltas(held.base, held.deltas)
        if held.w is None or held.face != face:
            for event in invert(model, held.pixels, face):
                if isinstance(event, Done):
                    self._portraits.change(token, w=event.result.w, face=face)
                elif isinstance(event, Progress):
                    yield event
        yield self.found_pixels(token, owner=owner)

    def show_targets(
        self, token: str, kind: str, distances: Sequence[float], *, owner: str = LOCAL
    ) -> list[np.ndarray]:
        """Who would take the person's place, by distance past the average face: small pictures, made at once."""
        return self._shown(token, owner, kind, distances)

    def erase_portrait(
        self, token: str, words: str, knobs: Mapping[str, Any], *, method: str = "guide", owner: str = LOCAL
    ) -> str:
        """Queues the erasure and takes the photo off the desk; gives the run's id."""
        return self.erase_portraits({token: words}, knobs, method=method, owner=owner)

    def erase_portraits(
        self, people: Mapping[str, str], knobs: Mapping[str, Any], *, method: str = "guide", owner: str = LOCAL
    ) -> str:
        """The same for several people, by token with the words for each. They must have been found in one model."""
        held = {token: self._portraits.get(token, owner) for token in people}
        if not held:
            raise UserError("nobody is chosen; choose a photo first")
        models = {(one.base, one.deltas) for one in held.values()}
        if len(models) > 1:
            raise UserError("these people were found in different models; choose them again in one model")
        ((base, deltas),) = models
        targets = tuple(_target(held[token], words) for token, words in people.items())
        target = targets[0] if len(targets) == 1 else People(targets)
        job = self.forget(base, target, method, dict(knobs), owner=owner, deltas=deltas)
        for token in people:
            self.drop_portrait(token, owner=owner)
        return job

    def portrait_code(self, token: str, base: str, *, owner: str = LOCAL) -> Tensor:
        """The code of a found face, [1, num_ws, w_dim], to be drawn by other versions of the same base."""
        held = self._portraits.get(token, owner)
        if held.base != base:
            raise UserError(f"this photo was found in {held.base}; choose it again to find it in {base}")
        return found_code(held)

    def drop_portrait(self, token: str, *, owner: str = LOCAL) -> None:
        self._portraits.drop(token, owner)

    def _shown(self, token: str, owner: str, kind: str | None, distances: Sequence[float]) -> list[np.ndarray]:
        held = self._portraits.get(token, owner)
        w = found_code(held)
        model = self.models.with_deltas(held.base, held.deltas)
        with torch.no_grad():
            codes = (
                [w]
                if kind is None
                else [
                    build(Guide, {"target": kind, "distance": float(d)}).targets(model, self._latents(model), w)
                    for d in distances
                ]
            )
        return pictures(model, torch.cat(codes), size=sensible_size(model))

    def _latents(self, model: torch.nn.Module) -> Latents:
        """Drawing ten thousand codes takes a second: once for each model."""
        if self._seen_latents is None or self._seen_latents[0] is not model:
            self._seen_latents = (model, Latents.of(model))
        return self._seen_latents[1]

    _seen_latents: tuple[torch.nn.Module, Latents] | None = None

    @cached_property
    def _portraits(self) -> "Held":
        return Held()


def found_code(held: Portrait) -> Tensor:
    if held.w is None:
        raise UserError("this face's code is not found yet; wait for the picture beside the photo")
    return held.w


def _target(held: Portrait, words: str) -> Photo | Seeds:
    if held.seed is not None:
        return Seeds((held.seed,))
    return Photo(held.pixels, held.face, words.strip() or "a person", held.others, found_code(held).cpu().numpy())


class Held:
    """The last few portraits by token, for their owners only."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Portrait] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, portrait: Portrait) -> str:
        token = secrets.token_hex(8)
        with self._lock:
            self._kept[token] = portrait
            while len(self._kept) > HELD:
                self._kept.popitem(last=False)
        return token

    def get(self, token: str, owner: str) -> Portrait:
        with self._lock:
            held = self._kept.get(token)
        if held is None or held.owner != owner:
            raise UserError("this photo is no longer in memory; choose it again")
        return held

    def change(self, token: str, **values: Any) -> None:
        with self._lock:
            if token in self._kept:
                self._kept[token] = replace(self._kept[token], **values)

    def drop(self, token: str, owner: str) -> None:
        with self._lock:
            if token in self._kept and self._kept[token].owner == owner:
                del self._kept[token]
