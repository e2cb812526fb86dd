"""What a generator, a classifier, a method and a metric must offer. Methods know models by these, never by import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from engine.core.events import Task

if TYPE_CHECKING:
    from torch import Tensor

    from engine.data import Request


@runtime_checkable
class Generator(Protocol):
    """An image network. A z-only network calls its z the one row of w, so that methods need no second path."""

    z_dim: int
    num_ws: int
    w_dim: int
    size: int  # side of the full image
    sizes: Sequence[int]  # sides that synth can make, small ones first; the last is `size`
    latent: Literal["w", "z"]  # where directions are looked for; "z": map() is the identity
    is_3d: bool  # whether yaw turns the head
    w_avg: Tensor  # [num_ws, w_dim]
    editable: Sequence[str]  # globs of parameter names that a method may change

    def sample_z(self, seeds: Sequence[int]) -> Tensor: ...  # [n, z_dim]; one seed, one z, whatever the batch
    def map(self, z: Tensor, *, psi: float = 1.0) -> Tensor: ...  # [n, num_ws, w_dim]
    def render(self, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> tuple[Tensor, Tensor]: ...
    # one pass: (features, image): tri-planes or an inner map [n, c, h, w], and [n, 3, size, size] in about [-1, 1]
    def affines(self) -> Sequence[tuple[Any, int]]: ...  # the linear layers that read w, and the row each reads
    def features(self, w: Tensor) -> Tensor: ...
    def synth(self, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> Tensor: ...


@runtime_checkable
class Classifier(Protocol):
    """A recogniser of named classes."""

    classes: Sequence[str]
    editable: Sequence[str]

    def features(self, x: Tensor) -> Tensor: ...
    def logits(self, x: Tensor, *, task: int | None = None) -> Tensor: ...  # [n, len(classes)]


@runtime_checkable
class Splittable(Classifier, Protocol):
    """A classifier that can be cut: its first n blocks then the others are the whole, bit for bit."""

    stage_cut: int  # the usual n

    def split(self, n: int) -> tuple[Any, Any]: ...  # (shallow, deep), sharing the weights


class Method(Protocol):
    """A frozen dataclass of knobs with one `run`. `snapshot` is what an interrupted run of the same knobs left."""

    accepts: ClassVar[type]
    title: ClassVar[str]  # in a visitor's words

    def run(self, base: Any, request: Request, snapshot: dict[str, Tensor] | None = None) -> Task: ...

    # A method may also have `check(before, after, request) -> Task`, whose Done holds a plain dict: what it did.


class Metric(Protocol):
    """One quantity, measured on the model before and after. Done's result is a dict of names to numbers."""

    better: ClassVar[Literal["lower", "higher"]]
    kind: ClassVar[Literal["forget", "keep", "quality", "attack", "integrity"]]
    title: ClassVar[str]

    def run(self, before: Any, after: Any, request: Request) -> Task: ...
