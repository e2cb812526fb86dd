"""A first guess of a face's code from its picture: ImageNet and face features, and a linear map of ours on top."""

import json
from functools import cache
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from engine import losses
from engine.core.errors import MissingAsset
from engine.features import TAPS, backbone

FILE = Path(__file__).resolve().parents[2] / "checkpoints" / "ours" / "ffhq_encoder.safetensors"
SIDE = 128  # of the picture
CELLS = 4  # features are averaged to CELLS x CELLS
GROUPS = 4  # rows of a code come in this many groups, coarse to fine; rows of a group get the same guess
WIDTH = sum(TAPS[1:]) * CELLS**2 + 128


def describe(images: Tensor) -> Tensor:
    """What the encoder reads of pictures [n, 3, 128, 128] in [-1, 1]: frozen features [n, WIDTH]."""
    maps = backbone(images.device)(images).maps[1:]
    cells = [F.adaptive_avg_pool2d(feature, CELLS).flatten(1) for feature in maps]
    return torch.cat([*cells, losses.identity(images)], 1)


class Encoder(nn.Module):
    """Features to (w - w̄) / radius for every row: a linear map of low rank."""

    def __init__(self, num_ws: int, w_dim: int, hidden: int = 384) -> None:
        super().__init__()
        self.config = {"num_ws": num_ws, "w_dim": w_dim, "hidden": hidden}
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("std", torch.ones(WIDTH))
        self.register_buffer("radius", torch.ones(()))
        self.register_buffer("w_avg", torch.zeros(num_ws, w_dim))
        self.read = nn.Linear(WIDTH, hidden)
        self.guess = nn.Linear(hidden, GROUPS * w_dim)

    def groups(self, features: Tensor) -> Tensor:
        """One code for each group of rows, [n, GROUPS, w_dim]."""
        return self.guess(self.read((features - self.mean) / self.std)).unflatten(1, (GROUPS, -1))

    def forward(self, features: Tensor) -> Tensor:
        rows = torch.arange(self.config["num_ws"], device=features.device) * GROUPS // self.config["num_ws"]
        return self.groups(features)[:, rows]

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """Pictures to codes [n, num_ws, w_dim]."""
        return self.w_avg + self(describe(images)) * self.radius


@cache
def encoder(device: torch.device | str = "cpu") -> Encoder:
    """The shipped encoder of the default base, loaded once."""
    if not FILE.exists():
        raise MissingAsset("the face encoder is not there; run 'python -m engine.train.encoder'")
    with safe_open(FILE, framework="pt") as file:
        config = json.loads(file.metadata()["card"])["config"]
        state = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 (not a dict)
    model = Encoder(**config)
    model.load_state_dict(state)
    return model.to(device).eval().requires_grad_(False)
