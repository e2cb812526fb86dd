"""DCGAN at 64 px: transposed convs and batch norm on one z. There is no w, so directions are looked for in z."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from engine import assets
from engine import device as devices
from engine.generators import Base, architectures, bases, unfolded
from engine.generators.base import LatentGenerator


@architectures.register("dcgan")
class Dcgan(LatentGenerator):
    """4, 8, 16, ... px. `map` gives z back as the one row of w, truncated towards 0, the prior's mean."""

    latent = "z"
    editable = ("main.*",)

    def __init__(self, z_dim: int = 100, channels: tuple[int, ...] = (512, 256, 128, 64)) -> None:
        super().__init__()
        self.config = {"z_dim": z_dim, "channels": tuple(channels)}
        self.z_dim = self.w_dim = z_dim
        self.num_ws, self.size = 1, 4 << len(channels)
        self.sizes = (self.size,)
        layers: list[nn.Module] = []
        for index, (inputs, outputs) in enumerate(pairwise((z_dim, *channels))):
            stride, padding = (1, 0) if index == 0 else (2, 1)
            layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False), nn.BatchNorm2d(outputs)]
            layers += [nn.ReLU()]
        self.main = nn.Sequential(*layers, nn.ConvTranspose2d(channels[-1], 3, 4, 2, 1, bias=False))
        self.register_buffer("w_avg", torch.zeros(1, z_dim))
        self.eval()

    def train(self, mode: bool = True) -> "Dcgan":
        """Stays in evaluation: batch statistics would make one image depend on the others in its batch."""
        return super().train(False)

    def map(self, z: Tensor, *, psi: float = 1.0) -> Tensor:
        return self.truncate(z[:, None], psi)

    def render(self, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> tuple[Tensor, Tensor]:
        """The features are the 16 px map."""
        self.pick_size(size)
        x, is_quick = w[:, 0, :, None, None], w.is_cpu and devices.type_asked_for(w.device) is not None
        for index, layer in enumerate(self.main):
            x = quickly(layer, x) if is_quick and isinstance(layer, nn.ConvTranspose2d) else layer(x)
            if index == 8:
                features = x
        return features, torch.tanh(x)


def quickly(conv: nn.ConvTranspose2d, x: Tensor) -> Tensor:
    """The same with maps channels last, which pays in bfloat16: the first conv, of one place, is a plain product, and
    small maps are not worth turning the weights around for. That product stays exact, at next to no cost: a rounded
    code is another code, and most of what a picture was off came from there."""
    weight = conv.weight
    if x.shape[2:] == (1, 1) and conv.stride == (1, 1):
        with torch.autocast(x.device.type, enabled=False):
            y = (x.flatten(1) @ weight.flatten(1)).unflatten(1, weight.shape[1:])
        return y.contiguous(memory_format=torch.channels_last)
    x = x.to(devices.type_asked_for(x.device))
    return unfolded.doubling4x4(x, weight) if unfolded.has_few_places(x) else conv(x)


def load() -> nn.Module:
    model = Dcgan()
    model.load_state_dict(model.state_dict() | assets.load("dcgan"))  # the file has no counters and no average
    return model


bases["faces64"] = Base(
    load=load, title="Faces, DCGAN, 64 px, z only", licence="MIT (gan-face-generate)", needs=("dcgan",)
)
