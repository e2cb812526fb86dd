"""Measures how alike strangers of the default base are to recogniser B: `python -m engine.train.identity_scale`.

With `--photos FOLDER` (a folder for each person) also how alike two photos of one person are; only numbers are kept.
With `--keep` the strangers stay as they were measured before.
"""

import argparse
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from engine.faces.detect import NoFace
from engine.faces.photo import open_photo
from engine.generators import bases
from engine.identity.judge import Judge, Scale
from engine.inversion.photo import aligned


def same_person(folder: Path, base: nn.Module, judge: Judge, size: int = 128) -> Tensor:
    """Everybody's first photo against their others, sorted."""
    alike = []
    for person in sorted(path for path in folder.iterdir() if path.is_dir()):
        faces = []
        for path in sorted(person.glob("*.jpg")):
            with suppress(NoFace):
                faces.append(aligned(open_photo(path.read_bytes()), 0, size, base.w_avg))
        if len(faces) > 1:
            alike.append(judge.compare(faces[0], torch.cat(faces[1:])).b)
    return torch.cat(alike).sort().values.cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faces", type=int, default=2000)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    base = bases["ffhq"].load().requires_grad_(False)
    scale = Scale.load(base.identity_scale) if args.keep else Scale.of(base, args.faces)
    if args.photos:
        scale = replace(scale, same=same_person(args.photos, base, Judge(scale)))
    scale.save(base.identity_scale)
    print(
        f"strangers: mean {scale.strangers.mean():.3f}, "
        f"75th percentile {scale.quantile(0.75):.3f}, 95th {scale.quantile(0.95):.3f}"
    )
    if scale.same_person:
        low, high = scale.same_person
        print(f"{len(scale.same)} pairs of photos of one person: 10th to 90th percentile {low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
