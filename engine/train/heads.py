"""Trains the preview heads of the default base: `python -m engine.train.heads`.

The full network is the teacher: a head must give what area-downscaling its 1024 px picture gives. Pictures are made
once and cached; a head starts from the closed-form least-squares solution on normalised features. Every draw comes
from --seed, and a run that was cut off goes on from its last snapshot.
"""

import argparse
import copy
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from engine import assets
from engine.commands.screen import bar
from engine.core.events import Done, Progress, Snapshot, Task
from engine.files import save_tensors
from engine.generators.ffhq import HEADS, convert
from engine.generators.mobile import Mobile
from engine.generators.preview import Preview
from engine.losses import lpips
from engine.resume import capture, resume
from engine.train import session
from engine.train.start import draw_weights

CACHE = Path(__file__).resolve().parents[2] / "checkpoints" / "cache"
CHUNK = 50  # pictures to a cache file
HELD_OUT = 1000  # chunks from here on are never trained on
EVERY = 50  # steps to a snapshot
Data = Callable[[int], tuple[Tensor, Tensor]]  # a chunk's number to its codes and pictures


def average(model: Mobile, seed: int, n: int = 100_000) -> Tensor:
    """The mean of many mapped z: the face that is nobody."""
    random, step = torch.Generator().manual_seed(seed), 5000
    with torch.no_grad():
        draws = (torch.randn(step, model.z_dim, generator=random) for _ in range(n // step))
        means = [model.map(z)[:, 0].double().mean(0) for z in draws]
    return torch.stack(means).mean(0).float().expand(model.num_ws, -1).clone()


def codes(model: Mobile, seed: int, chunk: int) -> Tensor:
    """Codes like those in use: one in two a plain W at psi 0.5 to 1, the others W+ (two faces crossed at some row, or
    a truncation of its own for each row)."""
    rows = []
    for index in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        random = torch.Generator().manual_seed(seed * 1_000_003 + index)
        z = torch.randn(2, model.z_dim, generator=random)
        psi = 0.5 + 0.5 * torch.rand(2, generator=random)
        per_row = 0.4 + 0.6 * torch.rand(model.num_ws, 1, generator=random)
        cut = int(torch.randint(1, model.num_ws, (), generator=random))
        a, b = (model.truncate(model.map(z[k : k + 1])[0], float(psi[k])) for k in range(2))
        match index % 4:
            case 0 | 1:
                rows.append(a)
            case 2:
                rows.append(torch.cat([a[:cut], b[cut:]]))
            case 3:
                rows.append(torch.lerp(model.w_avg, a, per_row))
    return torch.stack(rows)


@torch.no_grad()
def pictures(model: Mobile, folder: Path, seed: int, chunk: int) -> tuple[Tensor, Tensor]:
    """CHUNK codes and their pictures at the largest preview's side, in half precision; made on first use."""
    path, w = folder / f"heads_{seed}_{chunk:03d}.safetensors", codes(model, seed, chunk)
    if not path.exists():
        small = [shrink(model.synth(row[None]), model.sizes[-2]) for row in w]
        save_tensors(path, {"pictures": torch.cat(small).half()}, {})
    return w, load_file(path)["pictures"]


def stages(model: Mobile, w: Tensor) -> dict[str, Tensor]:
    """The map that each head reads, by the head's name."""
    found: dict[str, Tensor] = {}
    for x in model.maps(w):
        side = str(2 * x.shape[1])
        if side in model.heads:
            found[side] = x
        if len(found) == len(model.heads):
            break
    return found


def shrink(picture: Tensor, side: int) -> Tensor:
    return F.avg_pool2d(picture, picture.shape[-1] // side)


@torch.no_grad()
def fit_linear(model: Mobile, w: Tensor, picture: Tensor) -> None:
    """Normalisation from these pictures, and the ridge solution of the linear part, in double precision."""
    sums: dict[str, list[Tensor]] = {}
    for row, target in zip(w[:, None], picture.float(), strict=True):
        for side, near in stages(model, row).items():
            far = model.heads[side].view(near, row, model.synthesis, model.rows)
            x = F.pad(torch.cat([near, far], -1).flatten(0, 2), (0, 1), value=1.0)
            y = F.pixel_unshuffle(shrink(target, int(side)), 2).flatten(1).mT
            parts = [(x.mT @ x).double(), (x.mT @ y).double()]
            sums[side] = [a + b for a, b in zip(sums[side], parts, strict=True)] if side in sums else parts
    for side, (xx, xy) in sums.items():
        head: Preview = model.heads[side]
        count = xx[-1, -1]
        mean, y_mean = xx[-1, :-1] / count, xy[-1] / count
        cov = xx[:-1, :-1] / count - mean[:, None] * mean
        std = cov.diag().clamp_min(1e-8).sqrt()
        cov = cov / (std[:, None] * std) + 1e-4 * torch.eye(len(std), dtype=cov.dtype)
        weight = torch.linalg.solve(cov, (xy[:-1] / count - mean[:, None] * y_mean) / std[:, None])
        head.mean.copy_(mean), head.std.copy_(std)
        head.point.weight[:12], head.point.bias[:12] = weight.mT.float(), y_mean.float()


def losses(model: Mobile, w: Tensor, target: Tensor, perceptual: Callable, place: Sequence[float]) -> dict[str, Tensor]:
    """L1 on the whole picture, LPIPS on a window of 128 px: it is local, and costs by area."""
    with torch.no_grad():
        maps = stages(model, w)
    parts = {}
    for side, x in maps.items():
        made, wanted = model.picture(x, w), shrink(target, int(side))
        top, left = (round(share * max(int(side) - 128, 0)) for share in place)
        window = (..., slice(top, top + 128), slice(left, left + 128))
        parts[f"l1 {side}"] = F.l1_loss(made, wanted)
        parts[f"lpips {side}"] = perceptual(made[window], wanted[window]).mean()
    return parts


def train(
    model: Mobile,
    data: Data,
    perceptual: Callable[[Tensor, Tensor], Tensor],
    *,
    chunks: int,
    steps: int,
    batch: int,
    lr: float,
    seed: int,
    snapshot: Mapping[str, Tensor] | None = None,
) -> Task:
    """Done's result is the averaged heads. AdamW with warm-up and cosine decay; the average forgets in 100 steps."""
    random = torch.Generator().manual_seed(seed)
    w, target = (torch.cat(part) for part in zip(*(data(chunk) for chunk in range(chunks)), strict=True))
    model.requires_grad_(False)
    heads, ema = model.heads.requires_grad_(True), copy.deepcopy(model.heads).requires_grad_(False)
    # The linear part starts solved, and its inputs are correlated: at the full rate it would first get worse.
    solved = [p for name, p in heads.named_parameters() if ".point." in name]
    others = [p for name, p in heads.named_parameters() if ".point." not in name]
    groups = [{"params": solved, "factor": 0.15}, {"params": others, "factor": 1.0}]
    optimiser = torch.optim.AdamW(groups, lr=lr, weight_decay=1e-3, betas=(0.9, 0.99))
    start = 0
    if snapshot:
        start = resume(snapshot, heads, optimiser, random)
        ema.load_state_dict({name: snapshot[f"ema.{name}"] for name in ema.state_dict()})
    for step in range(start, steps):
        rate = lr * min((step + 1) / 20, 0.5 + 0.5 * math.cos(math.pi * step / steps))
        for group in optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        chosen = torch.randint(len(w), (batch,), generator=random)
        place = torch.rand(2, generator=random).tolist()
        parts = losses(model, w[chosen], target[chosen].float(), perceptual, place)
        optimiser.zero_grad()
        sum(parts.values()).backward()
        nn.utils.clip_grad_norm_(heads.parameters(), 1.0)
        optimiser.step()
        keep = min(0.99, (step + 1) / (step + 10))
        with torch.no_grad():
            for slow, fast in zip(ema.parameters(), heads.parameters(), strict=True):
                slow.lerp_(fast, 1 - keep)
        if (yield Progress(step + 1, steps, {name: part.item() for name, part in parts.items()})):
            break
        if (step + 1) % EVERY == 0:
            averaged = {f"ema.{name}": tensor.clone() for name, tensor in ema.state_dict().items()}
            yield Snapshot(step + 1, capture(heads, optimiser, random, step + 1) | averaged)
    yield Done(ema)


@torch.no_grad()
def measure(model: Mobile, data: Data, perceptual: Callable, chunks: int) -> dict[str, float]:
    """Mean L1 and LPIPS of each head on pictures that were held out."""
    found: dict[str, list[float]] = {}
    for chunk in range(HELD_OUT, HELD_OUT + chunks):
        w, target = data(chunk)
        for row, picture in zip(w[:, None], target[:, None].float(), strict=True):
            for side, x in stages(model, row).items():
                made, wanted = model.picture(x, row), shrink(picture, int(side))
                found.setdefault(f"l1 {side}", []).append(F.l1_loss(made, wanted).item())
                found.setdefault(f"lpips {side}", []).append(perceptual(made, wanted).item())
    return {name: round(sum(values) / len(values), 4) for name, values in found.items()}


def teacher(seed: int) -> Mobile:
    """The published network with its average, and heads that have learnt nothing."""
    model = draw_weights(Mobile(), seed)
    model.load_state_dict(model.state_dict() | convert(assets.load("ffhq")))
    model.w_avg.copy_(average(model, seed))
    return model.eval().requires_grad_(False)


def save(model: Mobile, path: Path, card: Mapping[str, object]) -> None:
    """Heads in half precision, their normalisation and the average in full."""
    tensors = {f"heads.{name}": tensor for name, tensor in model.heads.state_dict().items()}
    halved = {name: tensor if name.endswith((".mean", ".std")) else tensor.half() for name, tensor in tensors.items()}
    save_tensors(path, halved | {"w_avg": model.w_avg}, {"card": json.dumps(card)})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m engine.train.heads", description=__doc__)
    parser.add_argument("--chunks", type=int, default=12, help=f"of {CHUNK} pictures each, to train on")
    parser.add_argument("--held-out", type=int, default=4, help="chunks to measure on")
    parser.add_argument("--steps", type=int, default=320)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the pictures and the snapshot")
    parser.add_argument("--out", type=Path, default=HEADS)
    args = parser.parse_args()

    model, perceptual = teacher(args.seed), lpips("alex")
    data = partial(pictures, model, args.cache, args.seed)
    wanted = [*range(args.chunks), *range(HELD_OUT, HELD_OUT + args.held_out)]
    with bar("Making pictures") as update:
        for done, chunk in enumerate(wanted, start=1):
            data(chunk)
            update(done, len(wanted))
    w, target = data(0)
    fit_linear(model, w[:20], target[:20])
    card = {"title": "Preview heads of the FFHQ base", "closed_form": measure(model, data, perceptual, args.held_out)}
    settings = {name: getattr(args, name) for name in ("chunks", "steps", "batch", "lr", "seed")}
    start = partial(train, model, data, perceptual, **settings)
    snapshot = args.cache / f"heads_{args.seed}.snapshot"
    model.heads = session.run("Training the heads", snapshot, lambda kept: start(snapshot=kept))
    card |= {"settings": settings, "held_out": measure(model, data, perceptual, args.held_out)}
    card["held_out_pictures"] = args.held_out * CHUNK
    save(model, args.out, card)
    print(json.dumps(card, indent=1))


if __name__ == "__main__":
    main()
