"""Drawn 32 px faces with glasses and beards whose truth is known, and a small VAE of them for the tests.

`python -m tests.procedural` trains it anew (two minutes on one core) and writes tests/data/procedural_vae.safetensors.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from engine.files import save_tensors
from engine.generators.vae import Vae

FILE = Path(__file__).with_name("data") / "procedural_vae.safetensors"
CONFIG = {"top": 12, "levels": (), "widths": (32, 24, 16, 12), "colours": 1}
SIDE = 32
VARIANCE = 1.5  # of a pixel: smaller ones give better copies, but samples of the prior that are no faces


def faces(n: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures [n, 1, 32, 32] in [-1, 1], who wears glasses (one in ten, more often with a beard), who has a beard."""

    def uniform(low: float, high: float) -> Tensor:
        return (low + (high - low) * torch.rand(n, generator=random))[:, None, None]

    y, x = torch.meshgrid(torch.linspace(-1, 1, SIDE), torch.linspace(-1, 1, SIDE), indexing="ij")
    x, y = x - uniform(-0.12, 0.12), y - uniform(-0.1, 0.1)
    beard = torch.rand(n, generator=random) < 0.25
    glasses = torch.rand(n, generator=random) < torch.where(beard, 0.2, 0.07)
    width, skin, ground = uniform(0.5, 0.65), uniform(0.2, 0.8), uniform(-0.9, -0.3)

    def soft(distance: Tensor, sharp: float = 14.0) -> Tensor:
        return torch.sigmoid(sharp * distance)

    face = soft(1 - torch.sqrt((x / width) ** 2 + (y / 0.8) ** 2), 10)
    picture = ground + (skin - ground) * face
    hair = soft(-y - uniform(0.35, 0.6)) * soft(1.1 - torch.sqrt((x / width) ** 2 + (y / 0.85) ** 2), 10)
    picture = torch.lerp(picture, uniform(-1, -0.2).expand_as(picture), hair)
    apart, smile = uniform(0.22, 0.28), uniform(-0.15, 0.25)
    for side in (-1, 1):
        eye = soft(0.07 - torch.sqrt((x - side * apart) ** 2 + (y + 0.1) ** 2), 40)
        picture = torch.lerp(picture, torch.full_like(picture, -0.6), eye)
    mouth = soft(0.05 - (y - 0.42 + smile * x**2 * 4).abs(), 50) * soft(0.22 - x.abs(), 40)
    picture = torch.lerp(picture, torch.full_like(picture, -0.3), mouth)
    lower = soft(y - 0.28) * face * (beard * 0.85)[:, None, None]
    picture = torch.lerp(picture, torch.full_like(picture, -0.75), lower)
    rims = torch.zeros_like(picture)
    for side in (-1, 1):
        ring = (torch.sqrt((x - side * apart) ** 2 + (y + 0.1) ** 2) - 0.19).abs()
        rims = torch.maximum(rims, soft(0.045 - ring, 60))
    bridge = soft(0.04 - (y + 0.1).abs(), 60) * soft(apart - 0.17 - x.abs(), 60)
    rims = torch.maximum(rims, bridge) * glasses[:, None, None]
    return torch.lerp(picture, torch.full_like(picture, -0.95), rims)[:, None], glasses, beard


def vae() -> Vae:
    """The shipped one, frozen."""
    model = Vae(**CONFIG)
    model.load_state_dict({name: tensor.float() for name, tensor in load_file(FILE).items()})
    return model.eval().requires_grad_(False)


def main(steps: int = 3000, batch: int = 32) -> None:
    random, model = torch.Generator().manual_seed(0), Vae(**CONFIG)
    for parameter in model.parameters():
        scale = (2 / parameter[0].numel()) ** 0.5 if parameter.ndim > 1 else 0.0
        parameter.data = torch.randn(parameter.shape, generator=random) * scale * 0.7
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    for step in range(steps):
        picture = faces(batch, random)[0].expand(-1, 3, -1, -1)
        _, restored, divergences = model.infer(picture, lambda like: torch.randn(like.shape, generator=random))
        error = F.mse_loss(restored[:, :1], picture[:, :1], reduction="none").sum((1, 2, 3))
        loss = (error / VARIANCE + sum(divergences)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
        if step % 500 == 0:
            print(step, f"error {error.mean():.2f}, kl {sum(divergences).mean():.1f}", flush=True)
    state = {name: tensor.half() for name, tensor in model.state_dict().items()}
    save_tensors(FILE, state, {"card": json.dumps({"config": CONFIG, "steps": steps, "seed": 0})})


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
