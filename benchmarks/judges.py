"""How well our attribute nets judge, one by one and together: `python -m benchmarks.judges --data ../shared/data`.

On held-out photos, and on those generated faces labelled by eye that set no boundary. AUC: how often a picture with the
attribute gets the higher value than one without; balanced accuracy: at the boundary that is used.
"""

import argparse
import csv
import io
import json
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from engine.attributes import JUDGES, NAMES, attribute_net, balanced_accuracy
from engine.directions.fits import area_under_curve
from engine.train.attributes import BATCH, BLOCK, EYE, ROOT, SETS, answers, drawn, is_held_out, opened


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    args = parser.parse_args()
    print("## The judges of features\n")
    for title, (pictures, truth) in (("held-out photos", photos(args.data)), ("generated faces, by eye", faces())):
        logits = logits_of(pictures)
        by_whom = {"the first": logits[0], "the witness": logits[1], "together": logits.sum(0)}
        print(f"{title}, {len(truth)}: AUC (balanced accuracy)\n\n| attribute | {' | '.join(by_whom)} |")
        print(f"|---|{'---|' * len(by_whom)}")
        for column, name in enumerate(NAMES):
            known = ~truth[:, column].isnan()
            if known.any():
                there = truth[known, column]
                cells = (told(values[known, column], there) for values in by_whom.values())
                print(f"| {name} | {' | '.join(cells)} |")
        print(flush=True)


def told(values: Tensor, truth: Tensor) -> str:
    return f"{area_under_curve(values, truth):.3f} ({balanced_accuracy(values > 0, truth):.3f})"


def photos(data: Path) -> tuple[Iterator[Tensor], Tensor]:
    """Held-out ones, opened one by one."""
    archive = zipfile.ZipFile(data / f"{SETS[0]}.zip")
    rows = [row for row in csv.DictReader(io.TextIOWrapper(archive.open("index.csv"))) if row["glasses"]]
    held = is_held_out(torch.arange(len(rows)) // BLOCK)
    rows = [row for row, is_in in zip(rows, held.tolist(), strict=True) if is_in]
    return (opened(archive.read(row["file"])) for row in rows), torch.tensor([answers(row) for row in rows])


def faces() -> tuple[Iterator[Tensor], Tensor]:
    """Every other of those that were labelled by eye; the rest set the boundaries."""
    seen = json.loads(EYE.read_text())
    seeds, truth = list(range(*seen["seeds"]))[1::2], torch.full((len(NAMES),), torch.nan)
    rows = [truth.clone() for _ in seeds]
    for name, having in seen["having"].items():
        for row, seed in zip(rows, seeds, strict=True):
            row[NAMES.index(name)] = float(seed in set(having))
    return drawn(seeds, seen["psi"]), torch.stack(rows)


@torch.no_grad()
def logits_of(pictures: Iterator[Tensor]) -> Tensor:
    """[judges, n, attributes]"""
    nets, parts = [attribute_net(which) for which in JUDGES], []
    while batch := list(islice(pictures, BATCH)):
        parts.append(torch.stack([net.logits(torch.stack(batch)) for net in nets]))
    return torch.cat(parts, 1)


if __name__ == "__main__":
    main()
