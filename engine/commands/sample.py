"""`sample`: pictures of seeds, to a folder."""

from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import bar
from engine.core.errors import UserError
from engine.files import atomic

MOST = 10_000  # pictures in one call
BATCH = 8


def arguments(parser: Any) -> None:
    parser.add_argument("--base", help="model to sample (default: the photorealistic one, if its weights are there)")
    parser.add_argument("--seeds", default="0-7", help="seeds such as 3,7,10-15 (default 0-7)")
    parser.add_argument("--size", type=int, help="side in pixels (default: full)")
    parser.add_argument("--psi", type=float, default=0.7, help="truncation: 1 varied, 0 the average face (default 0.7)")
    parser.add_argument("--deltas", default="active", help="erasures to apply: active, none, or ids with commas")
    parser.add_argument("--yaw", type=float, default=0.0, help="turn of the head in radians, for 3D generators")
    parser.add_argument("--out", type=Path, default=Path("samples"), help="folder for the PNG files (default samples/)")


def run(args: Any, open_studio: Any) -> Any:
    from PIL import Image

    seeds = parse_seeds(args.seeds)
    studio = open_studio()
    base = args.base or studio.default_base()
    deltas = pick_deltas(studio, base, args.deltas)
    files: list[str] = []
    with bar("Drawing", quiet=args.json) as update:
        for first in range(0, len(seeds), BATCH):
            part = seeds[first : first + BATCH]
            pictures = studio.sample(base, part, deltas, psi=args.psi, size=args.size, yaw=args.yaw)
            for seed, pixels in zip(part, pictures, strict=True):
                path = args.out / f"{base}-{seed:06d}.png"
                with atomic(path) as file:
                    Image.fromarray(pixels).save(file, "png")
                files.append(str(path))
            update(len(files), len(seeds))
    return {"base": base, "deltas": deltas, "files": files} if args.json else "\n".join(files)


def pick_deltas(studio: Any, base: str, words: str) -> list[str]:
    """`active`, `none`, or ids with commas."""
    if words == "active":
        return studio.active(base)
    return [] if words == "none" else words.split(",")


def parse_seeds(text: str) -> list[int]:
    """`3,7,10-15` as a list."""
    seeds: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or (dash and int(high) < int(low)):
            raise UserError(f"--seeds {text!r}: write numbers and ranges such as 3,7,10-15")
        last = int(high) if dash else int(low)
        if last - int(low) + len(seeds) >= MOST:
            raise UserError(f"--seeds {text!r} asks for too many pictures; {MOST:,} at a time is the limit")
        seeds.extend(range(int(low), last + 1))
    return seeds


verbs["sample"] = Verb("make pictures of seeds", arguments, run)
