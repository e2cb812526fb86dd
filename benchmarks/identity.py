"""Erasing one person, ours against the published ways: `python -m benchmarks.identity`.

Real people are those of ../shared/data/lfw_identities: erased from photo 0, looked for at the codes of other photos.
Where that folder is not, only generated people are measured. Writes docs/identity_tradeoff.png.
"""

import argparse
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine import losses
from engine.core.events import Done, Progress, result
from engine.data import LatentBatch, Request
from engine.delta import compose
from engine.faces.photo import open_photo
from engine.faces.recogniser_b import centred_similarity
from engine.features import frechet_distance, pooled
from engine.generators import bases
from engine.identity.attack import Reinversion
from engine.identity.judge import Judge, interval, scale_of
from engine.identity.targets import draw
from engine.inversion.photo import aligned, projection_for
from engine.methods.ascent import Ascent
from engine.methods.guide import Guide, sensible_size

ROOT = Path(__file__).resolve().parents[1]
PHOTOS = ROOT.parent / "shared" / "data" / "lfw_identities"
PICTURE = ROOT / "docs" / "identity_tradeoff.png"
BATCH = 8

# The paper's baseline and its method as its code has it, in our units; both start at the base.
BASELINE = {"start": "base", "target": "average", "neighbours": 0, "others": 0, "lr": 1e-4, "steps": 5000}
AS_CODED = {**Guide.presets["As published"], "steps": 5000}


@dataclass(frozen=True)
class Person:
    """One to be erased. A generated one has no other photo."""

    w: Tensor  # [1, num_ws, w_dim]
    photo: Tensor
    others: Tensor | None = None


class Gallery:
    """Pictures of codes by the base, with what the networks say of them: made once, compared often."""

    def __init__(self, base, judge: Judge, w: Tensor) -> None:
        self.judge, self.w, self.percept = judge, w, losses.lpips("alex", w.device)
        self.images = render(base, w)
        self.vectors, self.features = judge.vectors(self.images), self.percept.features(self.images)

    @torch.no_grad()
    def against(self, model) -> dict[str, Tensor]:
        """Per code: likeness by B and A, and LPIPS, between the base's picture and this model's."""
        images = render(model, self.w)
        b, a = self.judge.vectors(images)
        return {
            "b": centred_similarity(b, self.vectors[0], self.judge.scale.mean),
            "a": (a * self.vectors[1]).sum(1),
            "drift": self.percept.distance(self.percept.features(images), self.features).cpu(),
            "images": images,
        }


@torch.no_grad()
def render(model, w: Tensor) -> Tensor:
    size = sensible_size(model)
    return torch.cat([model.synth(part, size=size) for part in w.split(BATCH)])


def generated(base, seeds) -> list[Person]:
    codes = base.map(base.sample_z(seeds))
    return [Person(w[None], render(base, w[None])) for w in codes]


def real(base, count: int, photos: int) -> list[Person]:
    """Every photo on its own through the same inversion as a user's."""
    found = []
    for folder in sorted(PHOTOS.glob("person_*"))[:count]:
        rows, pictures = [], []
        for path in sorted(folder.glob("*.jpg"))[:photos]:
            pictures.append(aligned(open_photo(path.read_bytes()), 0, projection_for(base).size, base.w_avg))
            start = base.guess_codes(pictures[-1]) if base.guess_codes else None
            rows.append(result(projection_for(base).run(base, pictures[-1], start)).w)
        found.append(Person(rows[0], pictures[0], torch.cat(rows[1:])))
    return found


def run(method, base, w: Tensor, seconds: float | None = None) -> tuple[object, int, float]:
    """The changed model, steps done and seconds taken; stops and keeps after `seconds`."""
    task, started = method.run(base, Request(LatentBatch(w, "a test"), "a test")), time.perf_counter()
    answer, steps = None, 0
    while True:
        event = task.send(answer)
        if isinstance(event, Done):
            return compose(base, event.result).eval(), steps, time.perf_counter() - started
        steps = event.step if isinstance(event, Progress) else steps
        answer = seconds is not None and time.perf_counter() - started > seconds


class Table:
    """Values by row and column, printed as means with bootstrap 95 % intervals."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, row: str, **columns: Tensor | float) -> None:
        for name, value in columns.items():
            self.rows[row][name] += torch.as_tensor(value).flatten().tolist()

    def show(self, title: str, columns: dict[str, str]) -> None:
        print(f"\n### {title}\n\n| | {' | '.join(columns.values())} |\n|{'---|' * (len(columns) + 1)}")
        for row, values in self.rows.items():
            cells = [cell(values[name]) for name in columns]
            print(f"| {row} | {' | '.join(cells)} |", flush=True)


def cell(values: list[float]) -> str:
    return "{:.3f} ({:.3f} to {:.3f})".format(*interval(values)) if values else "–"


COLUMNS = {
    "id": "ID",
    "id_others": "ID_others",
    "kept": "kept, random",
    "drift": "LPIPS, random",
    "people": "kept, other people (W+)",
    "id_a": "ID by A",
    "kept_a": "kept by A",
    "seconds": "seconds",
    "steps": "steps",
}


def measure(
    table: Table, row: str, model, person: Gallery, others: Gallery | None, faces: Gallery, people: Gallery
) -> Tensor:
    """Adds one erasure to the table and gives the random faces' pictures."""
    own, random, rest = person.against(model), faces.against(model), people.against(model)
    table.add(row, id=own["b"], id_a=own["a"], kept=random["b"], kept_a=random["a"], drift=random["drift"])
    table.add(row, people=rest["b"])
    if others is not None:
        table.add(row, id_others=others.against(model)["b"])
    return random["images"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 and 2 people, 16 random faces")
    parser.add_argument("--base", default="ffhq", help="model to erase from")
    args = parser.parse_args()
    count, faces_count, photos = (2, 16, 2) if args.quick else (6, 48, 3)
    base = bases[args.base].load().requires_grad_(False)
    judge = Judge(scale_of(base))
    sets = {"generated": generated(base, range(500, 500 + count))}
    if PHOTOS.is_dir():
        sets["real"] = real(base, count, photos)
    faces = Gallery(base, judge, draw(base, faces_count, torch.Generator().manual_seed(7)))
    mean, high = judge.scale.strangers.mean(), judge.scale.quantile(0.75)
    print("## Identity erase\n\nLikeness by recogniser B (centred), before against after.")
    print(f"Strangers: mean {mean:.3f}, 75th percentile {high:.3f}. Goals: ID and ID_others at most that,")
    print(f"kept at least 0.90, LPIPS at most 0.05. {count} people a table, {faces_count} random faces each.")
    for kind, people in sets.items():
        compare(base, judge, kind, people, faces)
    ablate(base, judge, sets, faces)
    many(base, judge, sets["generated"])
    attack(base, judge, sets.get("real", sets["generated"]))


def galleries(base, judge: Judge, people: list[Person], i: int) -> tuple[Gallery, Gallery | None, Gallery]:
    """The person, their other photos, and the other people."""
    person = people[i]
    rest = torch.cat([other.w for k, other in enumerate(people) if k != i])
    others = None if person.others is None else Gallery(base, judge, person.others)
    return Gallery(base, judge, person.w), others, Gallery(base, judge, rest)


def compare(base, judge: Judge, kind: str, people: list[Person], faces: Gallery) -> None:
    """Ours, then the published ways for as long as our Balanced takes."""
    table, distances = Table(), defaultdict(list)
    before = pooled(faces.images)
    for i, person in enumerate(people):
        own, others, rest = galleries(base, judge, people, i)
        budget = None
        ways = {"Quick": Guide(**Guide.presets["Quick"]), "Balanced": Guide()}
        ways |= {
            "paper's baseline": Guide(**BASELINE),
            "published code": Guide(**AS_CODED),
            "ascent": Ascent(steps=2000),
        }
        for name, method in ways.items():
            model, steps, seconds = run(method, base, person.w, budget)
            budget = max(seconds, 10.0) if name == "Balanced" else budget
            pictures = measure(table, name, model, own, others, faces, rest)
            table.add(name, seconds=seconds, steps=float(steps))
            distances[name].append(frechet_distance(before, pooled(pictures)))
    table.show(f"{kind} people; the published ways are stopped after the time of Balanced, at least 10 s", COLUMNS)
    half = len(before) // 2
    floor = frechet_distance(before[:half], before[half : 2 * half])
    row = ", ".join(f"{name} {sum(values) / len(values):.2f}" for name, values in distances.items())
    print(
        f"\nFD-eff of the random faces, before against after: {row} (two halves of the base's own faces: {floor:.2f})."
    )


def ablate(base, judge: Judge, sets: dict[str, list[Person]], faces: Gallery) -> None:
    """Distance and shrink of the redirection alone, and the picture of the trade-off; then the paper's three."""
    people = sets.get("real", sets["generated"])[:3]
    table, curves = Table(), defaultdict(list)
    for shrink in (0.1, 1.0, 10.0):
        for distance in (0.4, 0.8, 1.2, 2.0):
            row = f"shrink {shrink:g}, distance {distance:g}"
            for i, person in enumerate(people):
                model, _, _ = run(Guide(steps=0, shrink=shrink, distance=distance), base, person.w)
                own, others, rest = galleries(base, judge, people, i)
                measure(table, row, model, own, others, faces, rest)
            values = table.rows[row]
            found = values["id_others"] or values["id"]
            curves[shrink].append((distance, sum(values["kept"]) / len(values["kept"]), sum(found) / len(found)))
    table.show(
        "The redirection alone", {name: COLUMNS[name] for name in ("id", "id_others", "kept", "drift", "people")}
    )
    plot(curves, judge.scale.quantile(0.75), "their other photos" if people[0].others is not None else "the person")
    table, person = Table(), people[0]
    own, others, rest = galleries(base, judge, people, 0)
    trained = {"start": "base", "steps": 25, "lr": 2e-4, "identity_weight": 0.1}
    cases = {f"d {d}": {"distance": d} for d in (0.4, 0.8, 1.6)} | {f"spread {s}": {"spread": s} for s in (0.2, 0.8)}
    for name, knobs in (cases | {"no global term": {"others": 0}, "no adjacency": {"neighbours": 0}}).items():
        model, _, _ = run(Guide(**trained | knobs), base, person.w)
        measure(table, name, model, own, others, faces, rest)
    columns = {name: COLUMNS[name] for name in ("id", "id_others", "kept", "drift", "people")}
    table.show("The paper's ablations: 25 steps from the base, one person", columns)


def many(base, judge: Judge, people: list[Person]) -> None:
    """Several people jointly, and one after another, the earlier ones protected or not; and how alike they become."""
    own = Gallery(base, judge, torch.cat([person.w for person in people]))
    model, _, _ = run(Guide(steps=0), base, own.w)
    print(f"\n### {len(people)} generated people\n\nID of each, erased jointly: {line(own.against(model)['b'])}")
    pairs = torch.triu_indices(len(people), len(people), 1)
    shown = {"before": own.vectors[0], "after": judge.vectors(render(model, own.w))[0]}
    alike = {name: centred_similarity(v[pairs[0]], v[pairs[1]], judge.scale.mean) for name, v in shown.items()}
    print(
        "Likeness of two of them: "
        + ", ".join(f"{name} {value.mean():.3f}, at most {value.max():.3f}" for name, value in alike.items())
    )
    for protects in (False, True):
        print(f"\nOne after another, earlier ones {'' if protects else 'not '}protected; a row after each:\n")
        print(f"| erased | {' | '.join(str(k + 1) for k in range(len(people)))} |\n|{'---|' * (len(people) + 1)}")
        model = base
        for k in range(len(people)):
            retain = LatentBatch(own.w[:k], "erased before") if protects and k else None
            task = Guide(steps=0).run(model, Request(LatentBatch(own.w[k : k + 1], "a test"), "a test", retain))
            model = compose(model, result(task)).eval()
            print(
                f"| {k + 1} | {' | '.join(f'{value:.2f}' for value in own.against(model)['b'].tolist())} |", flush=True
            )


def line(values: Tensor) -> str:
    return ", ".join(f"{value:.2f}" for value in values.tolist())


def attack(base, judge: Judge, people: list[Person]) -> None:
    """The photo is sought again in the changed generator."""
    table = Table()
    for person in people[:3]:
        for target in ("opposite", "average"):
            model, _, _ = run(Guide(steps=0, target=target), base, person.w)
            found = result(Reinversion(judge, projection_for(base)).run(base, model, person.photo))
            table.add(f"target {target}", before=found.before, after=found.after)
    table.show("Re-inversion of the photo", {"before": "into the base", "after": "into the changed generator"})


def plot(curves: dict[float, list[tuple[float, float, float]]], high: float, whom: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for shrink, points in curves.items():
        axes.plot([p[1] for p in points], [p[2] for p in points], "o-", label=f"shrink {shrink:g}")
        for distance, x, y in points:
            axes.annotate(f"d {distance:g}", (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
    axes.axhline(high, color="grey", linestyle=":")
    axes.annotate("three of four strangers are below", (axes.get_xlim()[0], high), fontsize=7, color="grey")
    axes.set_xlabel("random faces kept")
    axes.set_ylabel(f"likeness left, {whom}")
    axes.legend()
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
