"""Trains the attribute networks that judge feature erasure: `python -m engine.train.attributes --data ../shared/data`.

`faces_attributes_128.zip` (CelebA subset, research use) has all attributes, `faces_synthetic_128.zip` only glasses.
Pictures go by blocks of 25, so that neighbours stay on one side: one block in six is held out, of the rest every other
one trains the judge and the others the second network. Each picture is described once as it is and once mirrored and
softened; descriptions are cached in shards, so that an interrupted run goes on where it was.

Generated faces were labelled by eye (seen_by_eye.json). Those that are `taught`, half of them chosen because the
networks were unsure, train the judge alone: what a photo calls a beard is seldom what a generator draws. Of the others
half set the boundaries and the other half report. `--boundaries` does only that, to the networks that are there. The
witness, whose trunk is slow, learns from the same generated faces and from one block in six.
"""

import argparse
import csv
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.progress import track
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F

from engine.attributes import (
    FILE,
    NAMES,
    WHICH,
    WITNESS,
    AttributeNet,
    attribute_net,
    balanced_accuracy,
    card,
    describe,
    see,
)
from engine.attributes import index as index_of
from engine.files import save_tensors

ROOT = Path(__file__).resolve().parents[2]
SETS = ("faces_attributes_128", "faces_synthetic_128")
COLUMNS = {"hat": "wearing_hat", "beard": "no_beard"}  # ours to the file's; the others differ by a blank only
SHARD, BLOCK, BATCH = 100, 25, 20
EYE = Path(__file__).with_name("seen_by_eye.json")
EMPHASIS = 4  # how often a taught generated face is shown for each time that a photo is
TAUGHT = -2  # a block of the judge's, not held out
LICENCE = "research use: trained on a CelebA subset, which is for non-commercial research"


@dataclass(frozen=True)
class Faces:
    """Descriptions by network, two of each picture; truth is NaN where unknown."""

    described: dict[str, Tensor]  # [n, 2, width]
    truth: Tensor  # [n, len(NAMES)]
    real: Tensor  # [n] bool: a photo
    block: Tensor  # [n] neighbours share one; TAUGHT for generated faces that only the judge learns from

    @property
    def held_out(self) -> Tensor:
        return is_held_out(self.block)

    def half(self, which: str) -> Tensor:
        """Which of them teach a network; all that were collected for the witness."""
        return ~self.held_out & ((self.block % 2 == WHICH.index(which)) if which in WHICH else True)

    def joined(self, others: "Faces") -> "Faces":
        described = {which: torch.cat([mine, others.described[which]]) for which, mine in self.described.items()}
        parts = ((getattr(self, part), getattr(others, part)) for part in ("truth", "real", "block"))
        return Faces(described, *(torch.cat(pair) for pair in parts))

    @property
    def times(self) -> Tensor:
        """How often each is shown in an epoch."""
        return torch.where(self.block == TAUGHT, EMPHASIS, 1)


def is_held_out(block: Tensor) -> Tensor:
    return block % 6 == 5


def is_for_witness(block: Tensor) -> Tensor:
    return (block % 6 == 0) | is_held_out(block) & (block % 4 == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=ROOT / "checkpoints" / "cache" / "attributes")
    parser.add_argument("--boundaries", action="store_true", help="set the shipped networks' boundaries anew")
    args = parser.parse_args()
    nets, accuracy, by_eye, pictures = {}, {}, {}, {}
    for together in (WHICH, (WITNESS,)):
        faces, generated = (
            collect(args.data, args.cache, together, args.boundaries),
            collect_generated(args.cache, together),
        )
        if not args.boundaries:
            faces = faces.joined(collect_taught(args.cache, together))
        for which in together:
            nets[which] = attribute_net(which) if args.boundaries else fit(faces, which, args.epochs, args.seed)
            by_eye[which] = calibrate(nets[which], generated[which])
            accuracy[which] = measure(nets[which], faces)
            pictures[which] = int(faces.half(which).sum())
        pictures.setdefault("held out", int(faces.held_out.sum()))
    if args.boundaries:
        trained = {name: card().facts[name] for name in ("seed", "epochs", "pictures")}
    else:
        trained = {"seed": args.seed, "epochs": args.epochs, "pictures": pictures}
    facts = {
        "title": "Attribute judges",
        "licence": LICENCE,
        **trained,
        "balanced accuracy": accuracy,
        "on generated faces, by eye": by_eye,
    }
    state = {f"{which}.{name}": tensor.half() for which in nets for name, tensor in nets[which].state_dict().items()}
    save_tensors(FILE, state, {"card": json.dumps(facts)})
    print(json.dumps(facts, indent=1), f"{FILE.name}: {FILE.stat().st_size / 1e6:.1f} MB", sep="\n")


def collect(data: Path, cache: Path, nets: Sequence[str], only_held_out: bool = False) -> Faces:
    """Describes every labelled picture, a shard at a time; finished shards are read."""
    shards, truth, real, blocks, count = [], [], [], [], 0
    wanted = is_held_out if only_held_out else is_for_witness if WITNESS in nets else torch.ones_like
    part_of = "held-out-" if only_held_out else ""
    for name in SETS:
        with zipfile.ZipFile(data / f"{name}.zip") as archive:
            rows = list(csv.DictReader(io.TextIOWrapper(archive.open("index.csv"))))
            rows = [row for row in rows if row["glasses"]]
            block = torch.arange(count, count + len(rows)) // BLOCK
            count += len(rows)
            chosen = wanted(block).bool()
            rows, block = [row for row, is_in in zip(rows, chosen.tolist(), strict=True) if is_in], block[chosen]
            for number, start in track(list(enumerate(range(0, len(rows), SHARD))), description=name):
                part = rows[start : start + SHARD]
                pictures = lambda part=part: (opened(archive.read(row["file"])) for row in part)  # noqa: E731
                shards.append(_shard(cache, f"{name}-{part_of}{number:03d}", pictures, nets))
        truth += [answers(row) for row in rows]
        real += [name == SETS[0]] * len(rows)
        blocks.append(block)
    described = {which: torch.cat([shard[which] for shard in shards]) for which in nets}
    return Faces(described, torch.tensor(truth), torch.tensor(real), torch.cat(blocks))


def _shard(cache: Path, name: str, pictures, nets: Sequence[str]) -> dict[str, Tensor]:
    """Descriptions for networks that read the same trunk."""
    path = cache / f"{nets[0]}-{name}.safetensors"
    if not path.exists():
        parts: dict[str, list[Tensor]] = {which: [] for which in nets}
        for batch in _batches(pictures()):
            with torch.no_grad():
                both = [see(images, nets[0]) for images in (batch, _softened(batch.flip(3)))]
            for which in nets:
                parts[which].append(torch.stack([describe(seen, which) for seen in both], 1).half())
        save_tensors(path, {which: torch.cat(rows) for which, rows in parts.items()}, {})
    return load_file(path)


def _batches(pictures: Iterator[Tensor]) -> Iterator[Tensor]:
    held = []
    for picture in pictures:
        held.append(picture)
        if len(held) == BATCH:
            yield torch.stack(held)
            held = []
    if held:
        yield torch.stack(held)


def opened(content: bytes) -> Tensor:
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 127.5 - 1


def _softened(images: Tensor) -> Tensor:
    """As a preview head draws: half of the detail is gone."""
    small = F.interpolate(images, scale_factor=0.5, mode="area")
    return torch.lerp(images, F.interpolate(small, size=images.shape[-2:], mode="bilinear"), 0.7)


def answers(row: dict[str, str]) -> list[float]:
    return [_answer(row, name) for name in NAMES]


def _answer(row: dict[str, str], name: str) -> float:
    value = row.get(COLUMNS.get(name, name.replace(" ", "_")), "")
    if not value:
        return float("nan")
    return 1 - float(value) if name == "beard" else float(value)


def fit(faces: Faces, which: str, epochs: int, seed: int) -> AttributeNet:
    """AdamW with a cosine rate; every attribute and both of its sides weigh the same."""
    random, model = torch.Generator().manual_seed(seed), AttributeNet(which)
    for parameter in model.parameters():
        scale = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.0
        parameter.data = torch.randn(parameter.shape, generator=random) * scale
    mine = faces.half(which).nonzero()[:, 0]
    shown = mine.repeat_interleave(faces.times[mine])
    described, truth = faces.described[which], faces.truth.nan_to_num()
    known = (~faces.truth.isnan()).float()
    model.mean.copy_(described[mine, 0].float().mean(0))
    model.std.copy_(described[mine, 0].float().std(0) + 1e-3)
    share = (truth * known)[shown].sum(0) / known[shown].sum(0)
    weight = known * torch.where(truth > 0, 0.5 / share, 0.5 / (1 - share))
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)

    def drop(x: Tensor, share: float) -> Tensor:
        return x * (torch.rand(x.shape, generator=random) >= share) / (1 - share)

    for _ in track(range(epochs), description=f"Fitting {which}"):
        for pick in shown[torch.randperm(len(shown), generator=random)].split(128):
            version = torch.randint(2, (len(pick),), generator=random)
            logits = model(described[pick, version].float(), drop)
            loss = F.binary_cross_entropy_with_logits(logits, truth[pick], weight[pick], reduction="sum")
            optimiser.zero_grad()
            (loss / len(pick)).backward()
            optimiser.step()
        rate.step()
    return model.eval()


@torch.no_grad()
def measure(model: AttributeNet, faces: Faces) -> dict[str, dict[str, float]]:
    """Balanced accuracy on the held-out photos, and of glasses on the held-out synthetic faces."""
    result: dict[str, dict[str, float]] = {}
    for title, kind in (("faces", faces.real), ("synthetic faces", ~faces.real)):
        mine = faces.held_out & kind
        says, truth = model(faces.described[model.which][mine, 0].float()) > 0, faces.truth[mine]
        known = [name for name in NAMES if not truth[:, index_of(name)].isnan().all()]
        pairs = {name: (says[:, index_of(name)], truth[:, index_of(name)]) for name in known}
        result[title] = {name: round(balanced_accuracy(*pair), 3) for name, pair in pairs.items()}
    return result


def collect_generated(cache: Path, nets: Sequence[str]) -> dict[str, tuple[Tensor, dict[str, Tensor]]]:
    """Descriptions and truth of the generated faces that were labelled by eye and are not taught."""
    seen = json.loads(EYE.read_text())
    seeds = list(range(*seen["seeds"]))
    described = _shard(cache, "seen_by_eye", lambda: drawn(seeds, seen["psi"]), nets)
    truth = {name: torch.tensor([float(s in set(having)) for s in seeds]) for name, having in seen["having"].items()}
    return {which: (described[which][:, 0].float(), truth) for which in nets}


def collect_taught(cache: Path, nets: Sequence[str]) -> Faces:
    """The generated faces that the judge learns from; where the eye was unsure, the truth is unknown."""
    seen = json.loads(EYE.read_text())
    taught = seen["taught"]
    seeds = [*range(*taught["seeds"]), *taught["chosen"]]
    described = _shard(cache, "taught", lambda: drawn(seeds, seen["psi"]), nets)
    truth = torch.full((len(seeds), len(NAMES)), torch.nan)
    for name, having in taught["having"].items():
        answers = dict.fromkeys(having, 1.0) | dict.fromkeys(taught["unsure"][name], torch.nan)
        truth[:, index_of(name)] = torch.tensor([answers.get(seed, 0.0) for seed in seeds])
    return Faces(described, truth, torch.zeros(len(seeds), dtype=torch.bool), torch.full((len(seeds),), TAUGHT))


def drawn(seeds: Sequence[int], psi: float) -> Iterator[Tensor]:
    from engine.generators import bases

    base = bases["ffhq"].load().requires_grad_(False)
    for start in range(0, len(seeds), BATCH):
        with torch.no_grad():
            yield from base.synth(base.map(base.sample_z(seeds[start : start + BATCH]), psi=psi), size=128)


@torch.no_grad()
def calibrate(model: AttributeNet, generated: tuple[Tensor, dict[str, Tensor]]) -> dict[str, dict[str, float]]:
    """Makes the logits of what was labelled by eye honest on even seeds (Platt 1999): above 0 it is more likely there
    than not. So about as many samples are counted as people see, and seldom others; the boundary of the best balanced
    accuracy saw beards in twice as many, babies and women among them. Reports odd seeds: how many people and the
    network see, and what they agree on."""
    described, truths = generated
    logits, report = model(described), {}
    for name, truth in truths.items():
        column, even = index_of(name), torch.arange(len(truth)) % 2 == 0
        fitted = LogisticRegression(C=np.inf).fit(logits[even, column, None].numpy(), truth[even].numpy())
        slope, offset = fitted.coef_.item(), fitted.intercept_.item()
        model.out.weight[column] *= slope
        model.out.bias[column] = slope * model.out.bias[column] + offset
        says, there = slope * logits[~even, column] + offset > 0, truth[~even] > 0
        report[name] = {
            "balanced accuracy": round(balanced_accuracy(says, truth[~even]), 3),
            "by eye": int(there.sum()),
            "by the network": int(says.sum()),
            "by both": int((says & there).sum()),
        }
    return report


if __name__ == "__main__":
    main()
