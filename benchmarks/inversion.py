"""How well a photo's code shows the person in it: `python -m benchmarks.inversion`.

Photos are those of ../shared/data/lfw_identities, where they are; generated faces are ones the encoder never saw, whose
codes are known. Every inversion is the one a user gets, and the encoder's guess alone stands beside it.
"""

import argparse
import time
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from engine.core.events import result
from engine.faces.detect import NoFace
from engine.faces.photo import open_photo
from engine.generators import bases
from engine.identity.judge import Judge, scale_of
from engine.identity.targets import draw
from engine.inversion.photo import aligned, projection_for
from engine.redirect import Latents

PHOTOS = Path(__file__).resolve().parents[2] / "shared" / "data" / "lfw_identities"
BATCH, SHARES = 5, torch.tensor([0.1, 0.5, 0.9])


def photographs(base, size: int, which: str, most: int) -> dict[str, Tensor]:
    """The photo of this name of every person in whose photo a face was found, aligned."""
    found = {}
    for path in sorted(PHOTOS.glob(f"person_*/{which}.jpg"), reverse=True)[:most]:
        with suppress(NoFace):
            found[path.parent.name] = aligned(open_photo(path.read_bytes()), 0, size, base.w_avg)
    return found


@torch.no_grad()
def render(base, w: Tensor, size: int) -> Tensor:
    return torch.cat([base.synth(part, size=size) for part in w.split(BATCH)])


def spread(values: Tensor) -> str:
    low, middle, high = values.double().quantile(SHARES.double()).tolist()
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def lengths(latents: Latents, w: Tensor, read: list[int]) -> Tensor:
    """How far each code lies out, in the measure of random codes: those have about √w_dim."""
    x = (w - latents.mean)[:, read]
    return (torch.linalg.solve(latents.covariance, x.mT).mT * x).sum(2).mean(1).sqrt()


def report(name: str, base, judge: Judge, latents: Latents, pictures: Tensor, codes: Tensor | None = None) -> None:
    """One row for the guess, where there is an encoder, and one for the whole inversion."""
    projection, read = projection_for(base), sorted({row for _, row in base.affines()})
    ways = {"the encoder's guess": base.guess_codes} if base.guess_codes else {}
    ways["with the search"] = lambda part: (
        result(projection.run(base, part, base.guess_codes(part) if base.guess_codes else None)).w
    )
    for way, invert in ways.items():
        started = time.perf_counter()
        w = torch.cat([invert(part) for part in pictures.split(BATCH)])
        seconds = (time.perf_counter() - started) / len(pictures)
        alike = judge.compare(render(base, w, projection.size), pictures)
        error = "–"
        if codes is not None:
            gap, own = (w - codes)[:, read], (codes - latents.mean)[:, read]
            error = spread(gap.square().sum((1, 2)) / own.square().sum((1, 2)))
        far = spread(lengths(latents, w, read))
        print(
            f"| {name}, {way} | {spread(alike.b)} | {spread(alike.a)} | {far} | {error} | {seconds:.1f} |", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=int, default=100, help="generated faces")
    parser.add_argument("--people", type=int, default=30, help="photos, one of each person")
    parser.add_argument("--base", default="ffhq")
    args = parser.parse_args()
    base = bases[args.base].load().requires_grad_(False)
    judge, latents, size = Judge(scale_of(base)), Latents.of(base), projection_for(base).size
    print("## Inversion\n\nMedian (10th to 90th percentile). Likeness: photo and inversion, by B (centred) and A.")
    print(
        f"Length: in the measure of random codes, which have about {base.w_dim**0.5:.1f}. Error: of the code, squared,"
    )
    print(f"relative to its distance from the average. Seconds are per photo in batches of {BATCH}.\n")
    print("| | likeness by B | by A | length | error | seconds |\n|---|---|---|---|---|---|")
    if PHOTOS.is_dir():
        photos, others = (photographs(base, size, which, args.people) for which in "01")
        report(f"{len(photos)} photos", base, judge, latents, torch.cat(list(photos.values())))
    codes = draw(base, args.faces, torch.Generator().manual_seed(900_000))
    report(f"{args.faces} generated faces", base, judge, latents, render(base, codes, size), codes)
    if PHOTOS.is_dir():
        pairs = [torch.cat([side[name] for name in photos if name in others]) for side in (photos, others)]
        people = min(args.people, len(list(PHOTOS.glob("person_*"))))
        print(f"\nTwo photos of the same person, by B: {spread(judge.compare(*pairs).b)}.", end=" ")
        print(f"A face was found in the first photo of {len(photos)} of {people} people.")


if __name__ == "__main__":
    main()
