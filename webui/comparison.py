"""A comparison as a value: two versions of a model and the codes that both draw. It fits into an address, so that a
link, the report and the picture show the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from engine.core.errors import UserError
from engine.studio import RUN, Studio
from webui import pictures
from webui.compare import pairs
from webui.seeds import parse_seeds
from webui.story import pair_up

KINDS = {
    "seeds": "The same seeds",
    "labels": "Labelled samples",
    "photos": "Your photos",
    "run": "The steps of a run",
}
MOST = 64  # pairs
LABELLED_PSI = 1.0  # labels are of samples that were not truncated


@dataclass(frozen=True)
class Comparison:
    """`left` and `right` are what is applied on either side. `which` are seeds as people write them, a feature's name,
    tokens of photos, or a run's id, by the kind in `of`; a run is seen from its `step` on, 0 being before it."""

    base: str
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    of: str = "seeds"
    which: str = "0-15"
    psi: float = 0.7
    step: int = 0

    @classmethod
    def read(cls, query: Mapping[str, str]) -> "Comparison":
        """From an address; what is not there is as usual, what cannot be is refused."""
        try:
            sides = {side: tuple(filter(None, query.get(side, "").split(","))) for side in ("left", "right")}
            numbers = {"psi": float(query.get("psi", cls.psi)), "step": int(query.get("step", cls.step))}
        except ValueError as error:
            raise UserError(f"this address is no comparison ({error}); make it again on the Compare page") from error
        if (of := query.get("of", cls.of)) not in KINDS or not 0 <= numbers["psi"] <= 1:
            raise UserError("this address is no comparison; make it again on the Compare page")
        return cls(query.get("base", ""), of=of, which=query.get("which", cls.which), **sides, **numbers)

    @property
    def query(self) -> str:
        said = {"base": self.base, "left": ",".join(self.left), "right": ",".join(self.right), "of": self.of}
        return urlencode(said | {"which": self.which, "psi": self.psi, "step": self.step})

    @property
    def truncation(self) -> float:
        return LABELLED_PSI if self.of == "labels" else self.psi


def codes(studio: Studio, asked: Comparison, owner: str) -> dict[int | str, str]:
    """What both sides draw, with the words under each pair."""
    if asked.of == "seeds":
        return {seed: f"seed {seed}" for seed in parse_seeds(asked.which, MOST)}
    if asked.of == "photos":
        tokens = [token for token in asked.which.split(",") if token]
        if not tokens:
            raise UserError("no photo is found yet; drop one, and wait for the picture beside it")
        return {token: f"photo {number}" for number, token in enumerate(tokens, start=1)}
    if not asked.which:
        raise UserError("nothing is labelled on this model yet; the Feature page is where samples are labelled")
    labels = studio.labels.get(owner, asked.base, asked.which)
    if not labels:
        raise UserError(f"nothing is labelled “{asked.which}” on this model; choose another feature")
    sides = {1: "with", 0: "without"}
    ordered = sorted(labels, key=lambda seed: -labels[seed].value)  # stable: those with it first, oldest first
    having = sum(label.value for label in labels.values())
    few = min(having, MOST // 2)
    shown = [*ordered[:few], *ordered[having : having + MOST - few]]
    return {seed: f"{sides[labels[seed].value]}, seed {seed}" for seed in shown}


def drawn(studio: Studio, asked: Comparison, size: int, owner: str) -> dict[str, Any]:
    """The value of a CompareGrid, and the steps of its slider, which only a run has."""
    if asked.of == "run":
        return run_steps(studio, asked, owner)
    captions = codes(studio, asked, owner)
    sides = [side(studio, asked, names, list(captions), size, owner) for names in (asked.left, asked.right)]
    return {"value": pairs(*sides, list(captions.values())), "steps": []}


def side(
    studio: Studio, asked: Comparison, names: Sequence[str], which: Sequence[int | str], size: int | None, owner: str
) -> list[str]:
    """Pictures of one version. Those of photos are not kept ready, nor those of a run that may go on."""
    if asked.of == "photos" or any(name.startswith(RUN) for name in names):
        made = studio.draw(asked.base, names, which, psi=asked.truncation, size=size, owner=owner)
        return [pictures.data_uri(pixels) for pixels in made]
    return pictures.samples(studio, asked.base, which, names, psi=asked.truncation, size=size)


def run_steps(studio: Studio, asked: Comparison, owner: str) -> dict[str, Any]:
    """What a run has shown, from `step` to every other step."""
    shown = steps_of(studio, asked.which, owner)
    if not shown:
        raise UserError("this run has no pictures of its steps any more; choose another")
    steps = sorted(shown)
    first = asked.step if asked.step in shown else steps[0]

    def picture(step: int, label: str) -> str:
        return pictures.webp_uri(studio.preview(asked.which, shown[step][label], owner))

    value = [
        {"a": picture(first, label), "b": [picture(step, label) for step in steps], "label": label or "its own pair"}
        for label in shown[first]
        if all(label in shown[step] for step in steps)
    ]
    return {"value": value, "steps": steps}


def steps_of(studio: Studio, job: str, owner: str) -> dict[int, dict[str, str]]:
    """Step to label to file; step 0 is before the run. Pictures of its check are of no step, and those of a person's
    photo are dropped when a run is decided."""
    found: dict[int, dict[str, str]] = {}
    for _, data in studio.follow(job, owner=owner, patience=0):
        told, _ = pair_up(data.get("images", {}))
        for label, before, after in told:
            is_there = all(studio.preview_path(job, file, owner).is_file() for file in (before, after))
            if is_there and not label.startswith("worst"):
                found.setdefault(0, {}).setdefault(label, before)
                found.setdefault(data["step"], {})[label] = after
    return found


def in_words(studio: Studio, asked: Comparison, owner: str) -> dict[str, str]:
    """What is compared, for the page, the report and the picture."""
    if asked.of == "run":
        row = studio.run(asked.which, owner)
        return {"Run": f"{row.title} ({row.id})", "Model": row.params["base"], "From step": str(asked.step)}
    known = studio.versions(asked.base, owner=owner)
    sides = [", ".join(known.get(name, name) for name in names) or "nothing" for names in (asked.left, asked.right)]
    which = {
        "seeds": f"seeds {asked.which}",
        "labels": f"samples labelled “{asked.which}”",
        "photos": "faces of photos",
    }
    return {
        "Model": f"{asked.base}, fingerprint {studio.facts(asked.base)['fingerprint']}",
        "Erased before": sides[0],
        "Erased after": sides[1],
        "Pictures of": which[asked.of],
        **({} if asked.of == "photos" else {"Truncation": f"{asked.truncation:g}"}),
    }
