"""Two runs side by side: what was set otherwise, what was scored, whether the deltas are the same, bit for bit."""

from collections.abc import Mapping
from typing import Any

from engine.core.joblog import Row
from engine.studio import RUN
from webui import words
from webui.comparison import Comparison
from webui.runview import is_undecided
from webui.view import Node, h


def two_runs(first: Row, second: Row) -> Node:
    return h(
        "div",
        verdict(first, second),
        h("section", h("h2", "Settings"), table(first, second, settings_of(first), settings_of(second)), cls="card"),
        h("section", h("h2", "Scores"), table(first, second, scores_of(first), scores_of(second)), cls="card"),
        pictures_link(first, second),
        cls="column-of",
    )


def settings_of(row: Row) -> dict[str, Any]:
    """Everything that was chosen, by the name it is shown under."""
    knobs = {name.replace("_", " "): value for name, value in row.params.get("knobs", {}).items()}
    return {
        "Forgets": row.params.get("target", {}).get("words", row.title),
        "Model": row.params.get("base", ""),
        "On top of": ", ".join(row.params.get("deltas", [])) or "nothing",
        "Method": row.params.get("method", row.kind),
        **knobs,
    }


def scores_of(row: Row) -> dict[str, str]:
    took = {"took": words.span(row.finished - row.started)} if row.finished and row.started else {}
    scalars = (row.result or {}).get("scalars", {})
    return {
        "state": row.state.value,
        **took,
        **{name.replace("_", " "): f"{value:.4g}" for name, value in scalars.items()},
    }


def table(first: Row, second: Row, left: Mapping[str, Any], right: Mapping[str, Any]) -> Node:
    """What differs is bold, and says so to who cannot see that."""
    head = h("tr", h("th", ""), *(h("th", run_link(row), scope="col") for row in (first, second)))
    body = []
    for name in dict.fromkeys([*left, *right]):
        values = [str(side.get(name, "–")) for side in (left, right)]
        differ = values[0] != values[1]
        cells = [h("td", h("b", value) if differ else value) for value in values]
        body.append(h("tr", h("td", name, " (differs)" if differ else None, cls="quiet"), *cells))
    return h("div", h("table", h("thead", head), h("tbody", *body)), cls="scroll")


def run_link(row: Row) -> Node:
    return h("a", f"{row.title}, {words.moment(row.created)}", href=f"./runs?run={row.id}")


def verdict(first: Row, second: Row) -> Node:
    prints = [(row.result or {}).get("fingerprints") for row in (first, second)]
    if not all(prints):
        return h("p", "One of the two has no delta, so their deltas cannot be compared.", cls="quiet")
    if prints[0] == prints[1]:
        told = f"Both gave the same delta, bit for bit (fingerprint {', '.join(prints[0])})."
        return h("p", told, cls="done", data_same="1")
    told = f"They gave different deltas (fingerprints {', '.join(prints[0])} and {', '.join(prints[1])})."
    return h("p", told, cls="note", data_same="0")


def pictures_link(first: Row, second: Row) -> Node | None:
    sides = [version_of(row) for row in (first, second)]
    bases = {row.params.get("base") for row in (first, second)}
    if None in sides or len(bases) != 1:
        return None
    asked = Comparison(bases.pop(), left=tuple(sides[0]), right=tuple(sides[1]))
    return h("p", h("a", "Compare their pictures at the same seeds", href=f"./compare?{asked.query}"))


def version_of(row: Row) -> list[str] | None:
    """The model after a run, as the Compare page names it; None when its result is gone."""
    result = row.result or {}
    if row.kind != "forget" or result.get("deleted") or result.get("discarded"):
        return None
    if is_undecided(row):
        return [*row.params["deltas"], f"{RUN}{row.id}"]
    return [*row.params["deltas"], *result["kept"]] if result.get("kept") else None
