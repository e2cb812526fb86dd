"""Measures how alike strangers of the default base are to recogniser B: `python -m engine.train.identity_scale`."""

import argparse

from engine.generators import bases
from engine.identity.judge import Scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=int, default=2000)
    args = parser.parse_args()
    base = bases["ffhq"].load().requires_grad_(False)
    scale = Scale.of(base, args.faces)
    scale.save(base.identity_scale)
    print(
        f"{args.faces} faces; strangers: mean {scale.strangers.mean():.3f}, "
        f"75th percentile {scale.quantile(0.75):.3f}, 95th {scale.quantile(0.95):.3f}"
    )


if __name__ == "__main__":
    main()
