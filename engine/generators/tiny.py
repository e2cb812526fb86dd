"""A 16 px generator with seeded weights, for tests and for a first page before the assets are there."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.generators import Base, architectures, bases
from engine.generators.base import LatentGenerator


@architectures.register("tiny")
class Tiny(LatentGenerator):
    """Mapping, constant, two modulated convs, RGB. It draws soft blobs in which w rules colour and place."""

    editable = ("synthesis.*",)

    def __init__(self, seed: int = 0, z_dim: int = 8, w_dim: int = 8, width: int = 16) -> None:
        super().__init__()
        self.config = {"seed": seed, "z_dim": z_dim, "w_dim": w_dim, "width": width}
        self.z_dim, self.w_dim, self.num_ws, self.size, self.sizes = z_dim, w_dim, 3, 16, (8, 16)
        self.mapping = nn.Linear(z_dim, w_dim)
        self.synthesis = nn.ModuleDict(
            {
                "const": nn.Conv2d(1, width, 4, bias=False),
                "style0": nn.Linear(w_dim, width),
                "conv0": nn.Conv2d(width, width, 3, padding=1),
                "style1": nn.Linear(w_dim, width),
                "conv1": nn.Conv2d(width, width, 3, padding=1),
                "style2": nn.Linear(w_dim, width),
                "rgb": nn.Conv2d(width, 3, 1),
            }
        )
        random = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in self.parameters():
                scale = parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.1
                parameter.copy_(torch.randn(parameter.shape, generator=random) * scale)
        mean = self.mapping.bias.detach().clone()
        self.register_buffer("w_avg", mean.expand(self.num_ws, w_dim).clone())

    def affines(self) -> list[tuple[nn.Module, int]]:
        return [(self.synthesis[f"style{row}"], row) for row in range(3)]

    def map(self, z: Tensor, *, psi: float = 1.0) -> Tensor:
        w = self.mapping(z)[:, None].expand(-1, self.num_ws, -1)
        return self.truncate(w, psi)

    def render(self, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> tuple[Tensor, Tensor]:
        net, size = self.synthesis, self.pick_size(size)
        x = net["const"].weight[None, :, 0].expand(len(w), -1, -1, -1)
        x = F.leaky_relu(net["conv0"](x * (1 + net["style0"](w[:, 0]))[..., None, None]), 0.2)
        x = F.interpolate(x, scale_factor=2, mode="bilinear")
        x = F.leaky_relu(net["conv1"](x * (1 + net["style1"](w[:, 1]))[..., None, None]), 0.2)
        rgb = torch.tanh(2 * net["rgb"](x * (1 + net["style2"](w[:, 2]))[..., None, None]))
        return x, F.interpolate(rgb, size=(size, size), mode="bilinear")


bases["tiny"] = Base(load=Tiny, title="Tiny blobs, 16 px, for tests", licence="MIT, made by this project")
