"""Erasing features from VAEs, strokes by a ruler and glasses by the judge: `python -m benchmarks.feature_vae`.

Digits: a sample is heavy when its ink, the mean of the picture, is among the top tenth of 2,000 samples, and slanted
when its lean, the ink's covariance of across and up over its variance up, is. The ruler both labels and judges, and
cannot be wrong.

Faces: what this VAE draws is blurred, and the attribute nets, which learnt from photos, err on it (the AUC against
one look at 160 samples, not a blind one, is printed). So both are fitted anew to this blur: each reads what it always
reads, of fresh faces of the FFHQ base as the VAE's own encoder and decoder bring them back, and learns what it said
of the sharp ones. No face is shown to both. Each takes the highest tenth of 2,000 samples for glasses; to the eye 15
of the 160 show them, and 17 more perhaps. The second labels and the judge counts; what the labelling net itself still
sees stands beside it, marked as not independent. How few of the one's glasses the other sees is printed, too: the
shares compare methods with each other and are no measure of glasses as such.

Labels are given as on the page, with the ruler or the labelling net in the place of the person: batches of 120 drawn
at random until ten of either side are known, then batches that the product picks (of ten samples two at random, and
these alone set thresholds). All methods get the same labels. The printed recipe takes as many steps as ours, and its
own 1,000.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.attributes import NAMES, Which, attribute_net, describe, see
from engine.core.events import result
from engine.core.targets import Labels
from engine.delta import compose
from engine.directions.fits import area_under_curve, logistic_regression
from engine.directions.labelled import shortage
from engine.evaluation.independence import check_judge
from engine.evaluation.shares import Share, removed
from engine.generators import bases
from engine.methods.ascent import Ascent
from engine.methods.feature import Feature
from engine.requests import labelled_codes
from engine.studio import LOCAL, Studio
from webui.feature import batches

Judge = Callable[[Tensor], Tensor]  # pictures to bool
Ruler = Callable[[Tensor], Tensor]  # pictures to a number each
FRESH = 1_000_000
SHARP = {"second": 200_000, "judge": 300_000}  # the first of the seeds that a net is fitted anew on
TENTH = 0.9
PENALTY = 0.1  # of the regression, for each number that is read
LOOKED_AT = range(50_000, 50_160)
SURE = (10, 23, 32, 41, 44, 52, 61, 64, 71, 75, 104, 107, 116, 138, 149)  # of these show glasses to the eye
PERHAPS = (13, 20, 22, 27, 34, 56, 60, 63, 85, 89, 108, 115, 118, 143, 146, 150, 159)


@dataclass(frozen=True)
class Case:
    """A feature of a base; the first of the judges also labels."""

    base: str
    feature: str
    judges: dict[str, Judge]
    note: str = ""  # on what the judges are worth


@torch.no_grad()
def drawn(model: nn.Module, seeds: Sequence[int]) -> Tensor:
    parts = torch.tensor(seeds).split(50)
    return torch.cat([model.synth(model.map(model.sample_z(part.tolist()))) for part in parts])


def network(name: str) -> nn.Module:
    return bases[name].load().eval().requires_grad_(False)


def above(base: nn.Module, ruler: Ruler) -> Judge:
    """Whether a picture has more of it than nine of ten random samples."""
    some = drawn(base, range(50_000, 52_000)).split(100)
    gate = torch.cat([ruler(part) for part in some]).quantile(TENTH)
    return lambda pictures: ruler(pictures) > gate


def ink(pictures: Tensor) -> Tensor:
    return pictures.mean((1, 2, 3))


def lean(pictures: Tensor) -> Tensor:
    """How far across a stroke goes for each pixel that it goes up."""
    weight = (pictures.mean(1) + 1).clamp(min=0) / 2  # [n, h, w]
    weight = weight / weight.sum((1, 2), keepdim=True).clamp(min=1e-6)
    place = torch.linspace(-1, 1, pictures.shape[-1])
    across, up = place[None, None], -place[None, :, None]
    right, high = (across - (weight * across).sum((1, 2), keepdim=True)), (up - (weight * up).sum((1, 2), keepdim=True))
    return (weight * right * high).sum((1, 2)) / (weight * high**2).sum((1, 2)).clamp(min=1e-6)


def digits(feature: str, ruler: Ruler) -> Case:
    return Case("digits-vae", feature, {"the ruler": above(network("digits-vae"), ruler)})


@torch.no_grad()
def fitted_anew(which: Which, vae: nn.Module, faces: int) -> Ruler:
    """Glasses in pictures as blurred as the VAE's, read as the net reads them, by its own word on sharp ones."""
    sharp, net, column = network("ffhq"), attribute_net(which), NAMES.index("glasses")
    reads, says = [], []
    for seeds in torch.arange(SHARP[which], SHARP[which] + faces).split(20):
        picture = sharp.synth(sharp.map(sharp.sample_z(seeds.tolist()), psi=0.7), size=128)  # as the VAE was taught
        says.append(net.sees(picture)[:, column])
        reads.append(describe(see(vae.infer(F.avg_pool2d(picture, 2).clamp(-1, 1))[1], which), which))
    read = torch.cat(reads)
    mean, std = read.mean(0), read.std(0) + 1e-3

    def standardised(described: Tensor) -> Tensor:
        return ((described - mean) / std).clamp(-6, 6)

    weight, _ = logistic_regression(standardised(read), torch.cat(says).to(read), PENALTY * read.shape[1])

    @torch.no_grad()
    def shows(pictures: Tensor) -> Tensor:
        return torch.cat([standardised(describe(see(part, which), which)) @ weight for part in pictures.split(50)])

    return shows


@torch.no_grad()
def by_eye(ruler: Ruler, pictures: Tensor) -> float:
    """How often one that shows glasses to the eye outscores one that does not; those in between are left out."""
    truth, clear = torch.zeros(len(pictures)), torch.ones(len(pictures), dtype=torch.bool)
    truth[list(SURE)], clear[list(PERHAPS)] = 1, False
    return area_under_curve(ruler(pictures)[clear], truth[clear])


def glasses(faces: int) -> Case:
    base, column = network("faces-vae"), NAMES.index("glasses")
    looked_at, some = drawn(base, LOOKED_AT), drawn(base, range(FRESH, FRESH + 2000))
    judges, worth = {}, []
    for name, which in (("the labelling net", "second"), ("the judge", "judge")):
        net, ruler = attribute_net(which), fitted_anew(which, base, faces)
        judges[name] = above(base, ruler)
        was, now = (by_eye(one, looked_at) for one in (lambda x, net=net: net.logits(x)[:, column], ruler))
        worth.append(f"{name} {now:.2f} (before it was fitted anew {was:.2f})")
    one, other = (counted(judge, some) for judge in judges.values())
    both = 100 * (one & other).sum() / one.sum()
    note = f"AUC by eye: {', '.join(worth)}; of the labelling net's glasses the judge sees {both:.0f} %."
    return Case("faces-vae", "glasses", judges, note)


def labelled(case: Case, base: nn.Module, count: int) -> tuple[Labels, str]:
    """What the first of the judges would have ticked in so many batches of the page, and how it went, in words."""
    sees, key = next(iter(case.judges.values())), (LOCAL, case.base, case.feature)
    with tempfile.TemporaryDirectory() as folder:
        studio = Studio(Path(folder), "cpu")
        try:
            for number in range(count):
                batch, known = batches.at_random(number), studio.labels.target(*key)
                if not shortage(len(known.having), len(known.lacking)):
                    pool = batches.pool(number)
                    picked = studio.next_samples(case.base, case.feature, pool, batches.SIZE, owner=LOCAL)
                    batch = batches.smart(number, picked)
                has = dict(zip(batch.seeds, counted(sees, drawn(base, batch.seeds)).long().tolist(), strict=True))
                for how, seeds in (("chosen", batch.chosen), ("random", set(batch.seeds) - batch.chosen)):
                    studio.labels.set_many(*key, {seed: has[seed] for seed in seeds}, how=how)
            target = studio.labels.target(*key)
        finally:
            studio.close()
    chosen = set(target.chosen)
    seen = len(target.having) + len(target.lacking)
    words = (
        f"{case.base}, {case.feature}: {seen} samples labelled, {seen - len(chosen)} drawn at random "
        f"({len(set(target.having) - chosen)} with it) and {len(chosen)} picked "
        f"({len(set(target.having) & chosen)} with it)"
    )
    return target, words


@torch.no_grad()
def counted(judge: Judge, pictures: Tensor) -> Tensor:
    return torch.cat([judge(part) for part in pictures.split(100)])


def measure(case: Case, target: Labels, base: nn.Module, seeds: int) -> None:
    """Every method with the same labels. Where who labelled also counts, that is said."""
    labeller, fresh = next(iter(case.judges)), range(FRESH, FRESH + seeds)
    old = drawn(base, fresh)
    for method, knobs in METHODS.items():
        after = compose(base, result(knobs.run(base, labelled_codes(base, target)))).eval()
        new = drawn(after, fresh)
        for name, judge in case.judges.items():
            before, shows = counted(judge, old), counted(judge, new)
            shares = Share(int(before.sum()), seeds), Share(int(shows.sum()), seeds)
            moved = (new - old)[~before].abs().mean().item() / 2
            was, now = (share.plain() for share in shares)
            gone = f"{100 * removed(*shares):.1f}" if was["count"] else "-"
            cells = f"{was['share']:.1f} | {now['share']:.2f} ({now['low']:.2f} to {now['high']:.2f}) | {gone}"
            row = f"{case.base}: {case.feature} | {method} | {told(name, labeller)} | {cells}"
            print(f"| {row} | {100 * moved:.2f} |", flush=True)


def told(judge: str, labeller: str) -> str:
    """Who counts, and whether they also labelled."""
    return f"{judge} (not independent)" if check_judge(judge, {"labelled": labeller}, override=True) else judge


PUBLISHED = Feature.presets["As published"]
METHODS = {
    "ours": Feature(),
    f"published, {Feature().steps} steps": Feature(**{**PUBLISHED, "steps": Feature().steps}),
    f"published, {PUBLISHED['steps']} steps": Feature(**PUBLISHED),
    "naive": Ascent(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=4, help="of 120 samples that are labelled")
    parser.add_argument("--seeds", type=int, default=2000, help="fresh samples that are counted")
    parser.add_argument("--faces", type=int, default=1000, help="on which each net is fitted to the VAE's blur")
    args = parser.parse_args()
    cases = [digits("heavy strokes", ink), digits("slant", lean), glasses(args.faces)]
    known = [(case, network(case.base)) for case in cases]
    labels = [labelled(case, base, args.batches) for case, base in known]
    print(f"## Features of VAEs\n\n{args.seeds} fresh samples. " + "; ".join(words for _, words in labels) + ".\n")
    print(*(case.note + "\n" for case in cases if case.note))
    print("| what | method | counted by | before % | after % (95 %) | removed % | others' pixels moved, % |")
    print("|---|---|---|---|---|---|---|")
    for (case, base), (target, _) in zip(known, labels, strict=True):
        measure(case, target, base, args.seeds)


if __name__ == "__main__":
    main()
