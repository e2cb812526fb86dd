"""Trains the classifiers that ship: `python -m engine.train.classifier --data people --path FOLDER`. Minutes each."""

import argparse
from pathlib import Path

from engine.core.events import Done, Progress
from engine.datasets import datasets
from engine.originals import RECIPES, shipped_path, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=sorted(RECIPES), required=True)
    parser.add_argument("--path", type=Path, help="what the data set asks for: a folder to keep pictures in, or an npz")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file to write (default: the one that ships)")
    flags = parser.parse_args()
    splits = datasets[flags.data].load(flags.path)
    for event in train(flags.data, splits, seed=flags.seed):
        if isinstance(event, Progress):
            print(f"epoch {event.step}/{event.total}", *(f"{k} {v:.2f}" for k, v in event.scalars.items()), flush=True)
        if isinstance(event, Done):
            event.result.save(flags.out or shipped_path(flags.data))
            print(dict(event.result.card.scalars))


if __name__ == "__main__":
    main()
