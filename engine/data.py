"""What the engine makes of a target: latents or images, and the request that a method works on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor


@dataclass(frozen=True)
class LatentBatch:
    """Codes of a generator. `origin` says where they came from in words, never the photo itself."""

    w: Tensor  # [n, num_ws, w_dim]
    origin: str

    def to(self, device) -> "LatentBatch":
        return LatentBatch(self.w.to(device), self.origin)


@dataclass(frozen=True)
class ImageSet:
    """Images and labels in memory. No augmentation, no device."""

    x: Tensor  # [n, c, h, w] uint8
    y: Tensor  # [n] int64
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    def of(self, classes: tuple[int, ...]) -> "ImageSet":
        """Only the samples of these classes."""
        keep = (self.y[:, None] == self.y.new_tensor(classes)[None]).any(1)
        return ImageSet(self.x[keep], self.y[keep], self.classes)


@dataclass(frozen=True)
class Request:
    """What to forget, what must stay, and the user's words for it. `extra` holds a method's own tensors, `names` are
    the words for each code where several people are forgotten at once, `roles` what a network has done for it."""

    forget: LatentBatch | ImageSet
    label: str
    retain: LatentBatch | ImageSet | None = None
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)  # "labelled “glasses”" -> the network that did

    def to(self, device) -> "Request":
        """Codes go to the model's device; images stay in memory and travel batch by batch."""

        def move(part):
            return part.to(device) if isinstance(part, LatentBatch) else part

        extra = {name: value.to(device) for name, value in self.extra.items()}
        return replace(self, forget=move(self.forget), retain=move(self.retain), extra=extra)
