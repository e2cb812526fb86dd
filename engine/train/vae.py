"""Trains the small autoencoders: `python -m engine.train.vae --data digits|faces --kind plain|hierarchical`.

Digits are scikit-learn's, upscaled to 32 px; faces are the default base's own, at 64 px. The weights go to
checkpoints/ours as half precision with a card in the header. Every draw comes from --seed, and a run that was cut
off goes on from its last snapshot.
"""

import argparse
import json
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.events import Done, Progress, Snapshot, Task
from engine.files import save_tensors
from engine.generators.vae import Vae
from engine.resume import capture, resume
from engine.train import session
from engine.train.start import draw_weights

ROOT = Path(__file__).resolve().parents[2]
EVERY = 250  # steps to a snapshot
SHAPES = {  # latent levels and widths
    ("digits", "plain"): {"top": 12, "levels": (), "widths": (64, 48, 32, 16), "colours": 1},
    ("digits", "hierarchical"): {"top": 8, "levels": ((8, 1),), "widths": (64, 48, 32, 16), "colours": 1},
    ("faces", "plain"): {"top": 128, "levels": (), "widths": (128, 96, 64, 32, 16), "colours": 3},
    ("faces", "hierarchical"): {
        "top": 64,
        "levels": ((4, 8), (8, 4)),
        "widths": (128, 96, 64, 32, 16),
        "colours": 3,
    },
}
RECIPES = {  # upscaled digits repeat each pixel sixteen times, so their likelihood counts too much: a large beta
    "digits": {"steps": 1000, "batch": 64, "beta": 30.0, "lr": 3e-3},
    "faces": {"steps": 2000, "batch": 24, "beta": 5.0, "lr": 2e-3},
}
SHIPPED = {("digits", "plain"): "digits_vae", ("faces", "hierarchical"): "faces_vae"}  # the bases that come along


def digits() -> Tensor:
    """All but the test images, [n, 1, 32, 32] uint8."""
    from engine.datasets import datasets

    splits = datasets["digits"].load(size=32)
    return torch.cat([splits.train.x, splits.validation.x])


@torch.no_grad()
def faces(cache: Path, n: int = 3000, psi: float = 0.7) -> Tensor:
    """Seeds 0 to n of the default base through its 128 px head, halved, [n, 3, 64, 64] uint8; made once."""
    from safetensors.torch import load_file

    from engine.generators import bases

    path = cache / f"faces_{n}_{psi}.safetensors"
    if not path.exists():
        model, parts = bases["ffhq"].load(), []
        for start in range(0, n, 4):
            w = model.map(model.sample_z(range(start, min(start + 4, n))), psi=psi)
            small = F.avg_pool2d(model.synth(w, size=128), 2).clamp(-1, 1)
            parts.append(((small + 1) * 127.5).round().to(torch.uint8))
        save_tensors(path, {"x": torch.cat(parts)}, {})
    return load_file(path)["x"]


def train(
    model: Vae,
    images: Tensor,
    *,
    steps: int,
    batch: int,
    beta: float,
    lr: float,
    seed: int,
    snapshot: Mapping[str, Tensor] | None = None,
) -> Task:
    """Laplace likelihood of scale 0.1 plus beta times KL, which comes in over the first fifth. Done holds the model.

    A level pays nothing for its first 2 nats, so that no level is given up before it has learnt to help."""
    random = torch.Generator().manual_seed(seed)
    model = model.requires_grad_(True).to(memory_format=torch.channels_last)  # a quarter faster on a CPU
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    start = resume(snapshot, model, optimiser, random) if snapshot else 0

    def draw(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=random).to(like)

    for step in range(start, steps):
        optimiser.param_groups[0]["lr"] = lr * min((step + 1) / 50, 0.5 + 0.5 * math.cos(math.pi * step / steps))
        chosen = torch.randint(len(images), (batch,), generator=random)
        x = (images[chosen].to(model.w_avg) / 127.5 - 1).contiguous(memory_format=torch.channels_last)
        _, restored, divergences = model.infer(x, draw)
        l1 = (restored[:, : x.shape[1]] - x).abs().flatten(1).sum(1).mean()
        kl = torch.stack([divergence.mean() for divergence in divergences])
        warm = min(1.0, 5 * (step + 1) / steps)
        loss = l1 / 0.1 + beta * warm * kl.clamp_min(2.0).sum()
        optimiser.zero_grad()
        (loss / x[0].numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        scalars = {"l1": l1.item() / x[0].numel()} | {f"kl {level}": value.item() for level, value in enumerate(kl)}
        if (yield Progress(step + 1, steps, scalars)):
            break
        if (step + 1) % EVERY == 0:
            yield Snapshot(step + 1, capture(model, optimiser, random, step + 1))
    yield Done(model.requires_grad_(False).eval())


@torch.no_grad()
def measure(model: Vae, images: Tensor) -> dict[str, float]:
    """How well pictures come back, and how many nats each level carries for them."""
    x = images.to(model.w_avg) / 127.5 - 1
    w, restored, divergences = model.infer(x)
    again = model.synth(w)
    assert torch.allclose(again, restored, atol=1e-4), "the joint noise does not bring the picture back"
    l1 = (restored[:, : x.shape[1]] - x).abs().mean().item()
    return {"l1": l1} | {f"kl {level}": value.mean().item() for level, value in enumerate(divergences)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m engine.train.vae", description=__doc__)
    parser.add_argument("--data", choices=("digits", "faces"), default="digits")
    parser.add_argument("--kind", choices=("plain", "hierarchical"), default="plain")
    for name, kind in (("steps", int), ("batch", int), ("beta", float), ("lr", float)):
        parser.add_argument(f"--{name}", type=kind, help="default: what suits the data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=ROOT / "checkpoints" / "cache")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    config = SHAPES[args.data, args.kind]
    images = digits() if args.data == "digits" else faces(args.cache)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(args.seed))
    held_out, images = images[order[:200]], images[order[200:]]
    name = SHIPPED.get((args.data, args.kind), f"{args.data}_{args.kind}_vae")
    chosen = {key: getattr(args, key) for key in RECIPES[args.data] if getattr(args, key) is not None}
    settings = RECIPES[args.data] | chosen | {"seed": args.seed}
    start = partial(train, draw_weights(Vae(**config), args.seed), images, **settings)
    model = session.run(name, args.cache / f"{name}.snapshot", lambda snapshot: start(snapshot=snapshot))
    card = {"title": name, "data": args.data, "kind": args.kind, "config": config, **settings}
    card |= {"images": len(images), "held_out": measure(model, held_out)}
    weights = {key: tensor.half() for key, tensor in model.state_dict().items()}
    save_tensors(args.out or ROOT / "checkpoints" / "ours" / f"{name}.safetensors", weights, {"card": json.dumps(card)})
    print(json.dumps(card, indent=1))


if __name__ == "__main__":
    main()
