"""What a deposit did, in words, numbers and drawings."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.joblog import Row
from webui import words
from webui.charts import chances, class_bars, confusion, triptych
from webui.runview import metric_card, metric_cards
from webui.view import Node, h

NAMES = {"original": "Before", "target": "Deposited", "recovered": "Withdrawn"}
COLUMNS = ("Pre", "Dep", "Avg", "F", "H Mean", "agreement", "restore error")
EXPLAINED = (
    "Pre and Dep: test pictures of kept and of deposited classes that are named rightly, among all classes, in per "
    "cent. F: points of Dep that were lost. H Mean: harmonic mean of Pre and F. Restricted: the original when the "
    "deposited classes may not be answered. Sum rule: the published code's other way to recover. What comes back is "
    "close to what left, never bit for bit the same."
)


def outcome_tree(row: Row, found: Mapping[str, Any]) -> Node:
    """Everything that was measured, the plain words first."""
    names, gone = found["classes"], found["deposited"]
    series = {NAMES[name]: numbers for name, numbers in found["by class"].items()}
    maps = {NAMES[name]: points for name, points in found["map"].items()}
    matrices = [confusion(NAMES[name], counts, names, gone) for name, counts in found["confusion"].items()]
    return h(
        "div",
        h("h2", f"Without {', '.join(gone)}"),
        metric_cards(cards(row, found)),
        section("Test pictures named rightly, in per cent", class_bars(names, series, gone)),
        section("Who is taken for whom: true classes down, answers across", h("div", *matrices, cls="matrices")),
        section("Where the networks put the pictures", triptych(maps, found["map labels"], names)),
        h("details", h("summary", "All numbers"), table(found), h("p", EXPLAINED, cls="quiet small"), cls="card"),
        cls="column-of",
    )


def section(title: str, body: Node) -> Node:
    return h("section", h("h3", title), body, cls="card")


def cards(row: Row, found: Mapping[str, Any]) -> list[Node]:
    table, gone = found["table"], ", ".join(found["deposited"])
    before, target, back = table.get("original", {}), table["target"], table.get("recovered")
    was = f", was {before['Dep']:.1f} %" if before else ""
    forgotten = target["Dep"] < 15
    drawn = [
        metric_card(gone, "Forgotten" if forgotten else "Partly forgotten", f"{target['Dep']:.1f} % named rightly{was}",
                    "good" if forgotten else "warn"),
        kept_card(before, target, table),
    ]  # fmt: skip
    if back:
        lost = before and before["Avg"] - back["Avg"] > 1
        number = f"{back['Dep']:.1f} % of them, {back['Pre']:.1f} % of the others named rightly"
        drawn.append(
            metric_card("With the file", "Back, with losses" if lost else "Back", number, "warn" if lost else "good")
        )
    sizes = row.result["sizes"]
    part = (
        f"{100 * sizes['bytes'] / sizes['network']:.1f} % of the network, made in {words.span(row.result['seconds'])}"
    )
    drawn.append(metric_card("The file", words.weight(sizes["bytes"]), part))
    drawn.append(left_card(found))
    return drawn


def kept_card(before: Mapping[str, float], target: Mapping[str, float], table: Mapping[str, Any]) -> Node:
    fine = not before or target["Pre"] > before["Pre"] - 1
    restricted = table.get("original, restricted", {}).get("Pre")
    number = f"{target['Pre']:.1f} % named rightly" + (f", was {before['Pre']:.1f} %" if before else "")
    number += f" ({restricted:.1f} % if only they may be answered)" if restricted is not None else ""
    return metric_card("The others", "As before" if fine else "Harmed", number, "good" if fine else "bad")


def left_card(found: Mapping[str, Any]) -> Node:
    """A network that does not answer may still know: the honest part."""
    probe, member = found["probe"]["target"], found["membership"]["target"]
    number = f"a probe on its features tells them apart in {probe:.0f} % of cases; membership AUC {member:.2f}"
    return metric_card("Left inside", "Traces remain" if probe > 50 else "Little is left", number, "warn")


def table(found: Mapping[str, Any]) -> Node:
    head = h("tr", h("th", "Network", scope="col"), *(h("th", name, scope="col") for name in COLUMNS))
    rows = []
    for name, numbers in found["table"].items():
        first, _, rest = name.partition(", ")
        title = NAMES[first] + (f", {rest}" if rest else "")
        digits = {column: f"{numbers[column]:.1f}" if column in numbers else "" for column in COLUMNS}
        if "H Mean bound" in numbers:
            digits["H Mean"] = f"at most {numbers['H Mean bound']:.1f}"
        rows.append(h("tr", h("td", title), *(h("td", text) for text in digits.values())))
    return h("div", h("table", h("thead", head), h("tbody", *rows)), cls="scroll")


def file_tree(row: Row, is_here: bool, back: Sequence[str]) -> Node:
    """What can be done with the deposit now."""
    job, size = {"data_job": row.id}, words.weight(row.result["sizes"]["bytes"])
    drawn = []
    if is_here:
        link = h("a", f"Download the deposit ({size})", href=f"./deposits/{row.id}", download="")
        words_ = "It is also kept here until you remove it. Then only your copy can bring the classes back."
        gone = h(
            "button",
            "Remove it here",
            on="remove",
            confirm="Do you have your copy? Click again",
            cls="small warn",
            **job,
        )
        drawn.append(h("div", h("p", link), h("p", words_, cls="quiet small"), h("div", gone, cls="row"), cls="card"))
    else:
        drawn.append(
            h("p", "The deposit is not on this machine any more; your copy can bring the classes back.", cls="note")
        )
    if back:
        again = h("button", "Take it out again", on="take_out", busy="Taking out …", cls="small", **job)
        drawn.append(
            h("div", h("p", h("strong", "Back: "), ", ".join(back), "."), h("div", again, cls="row"), cls="done")
        )
    return h("div", *drawn, cls="column-of")


def answer_tree(said: Mapping[str, Sequence[tuple[str, float]]]) -> Node:
    """Three cards side by side; the third waits for the file."""
    order = list(NAMES)
    drawn = [chances(NAMES[name], answers, order.index(name)) for name, answers in said.items()]
    if "recovered" not in said:
        waiting = h("p", "Hand the file back to hear this one.", cls="quiet")
        drawn.append(h("section", h("p", NAMES["recovered"], cls="what"), waiting, cls="card answer"))
    return h("div", *drawn, cls="cards")
