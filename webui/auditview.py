"""An audit's report as nodes: the verdict in words, one card for each attack, what should have stayed, integrity.

Only the drawing is here; every word and number comes from the engine's report.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.joblog import Row
from webui import words
from webui.pictures import webp_uri
from webui.runview import metric_card, metric_cards
from webui.view import Node, h

SIDES = {"before": "Base", "after": "Unlearned"}
Pictures = Mapping[str, Mapping[str, bytes]]


def report_tree(job: str, report: Mapping[str, Any], pictures: Pictures) -> Node:
    first, *rest = report["verdict"]
    aim = report["aim"]
    small = " pixel" if aim["size"] < 64 else ""  # a tiny picture is shown with its pixels, not blurred
    return h(
        "div",
        h("section", h("p", first, cls="says"), [h("p", line) for line in rest], links(job), cls="card verdict"),
        h("h2", "What was tried"),
        h("p", f"The attacker is {aim['attacker']}; the judge is {aim['judge']}.", cls="quiet"),
        h("div", *(card(found, pictures.get(found["name"], {})) for found in report["findings"]), cls="findings"),
        h("h2", "What should have stayed"),
        facts(report["kept"])
        if report["kept"]
        else h("p", "Not looked at: the audit was stopped before.", cls="quiet"),
        h("h2", "Integrity"),
        facts(report["integrity"]),
        h("details", h("summary", "How to make it again"), making(report), cls="card"),
        cls=f"column-of audit{small}",
    )


def links(job: str) -> Node:
    page, data = (h("a", kind.upper(), href=f"./audits/{job}.{kind}", download="") for kind in ("html", "json"))
    return h("p", "The report as a file: ", page, " or ", data, cls="quiet small")


def card(found: Mapping[str, Any], shots: Mapping[str, bytes]) -> Node:
    sides = [bar(name, found[side]) for side, name in SIDES.items() if side in found]
    seen = [shot(name, shots[side]) for side, name in SIDES.items() if side in shots]
    return h(
        "section",
        h("div", h("h3", found["title"]), h("span", found["says"], cls=f"state tone {found['tone']}"), cls="top"),
        h("p", found["words"]),
        h("div", sides, cls="scales") if sides else None,
        h("div", seen, cls="shots") if seen else None,
        h("details", h("summary", "What exactly"), exactly(found)),
        cls=f"card finding {found['tone']}",
        data_attack=found["name"],
        data_standing=found["standing"],
    )


def bar(name: str, side: Mapping[str, Any]) -> Node:
    """The share as a mark, its interval as a band."""
    value, low, high = side["scale"]
    spoken = f"{name}: {value:.0f} %, 95 % interval {low:.0f} to {high:.0f} %"
    drawing = h(
        "svg",
        h("rect", x=0, y=4, width=100, height=6, cls="track"),
        h("rect", x=f"{low:.1f}", y=4, width=f"{max(high - low, 0.5):.1f}", height=6, cls="band"),
        h("rect", x=f"{value - 0.5:.1f}", y=0, width=1, height=14, cls="point"),
        viewBox="-1 0 102 14",
        preserveAspectRatio="none",
        role="img",
        aria_label=spoken,
    )
    told = f"{side['count']} of {side['of']}" if "of" in side else f"AUC {side['value']:.2f}"
    return h("div", h("span", name), drawing, h("span", told, cls="value"), cls="line")


def shot(name: str, content: bytes) -> Node:
    words_ = f"{name}: best try"
    return h("figure", h("img", src=webp_uri(content), alt=words_), h("figcaption", words_))


def exactly(found: Mapping[str, Any]) -> Node:
    told = {"Tried": sentence(found["tried"]), "Budget on each model": found["budget"], "Seeds": found["seeds"]}
    return listing(told)


def facts(found: Sequence[Mapping[str, Any]]) -> Node:
    tones = {True: "good", False: "bad", None: ""}
    cards = [metric_card(fact["what"], sentence(fact["words"]), amount(fact), tones[fact["is_good"]]) for fact in found]
    return metric_cards(cards)


def amount(fact: Mapping[str, Any]) -> str:
    return f"{fact['samples']} samples at the same seeds" if "samples" in fact else ""


def making(report: Mapping[str, Any]) -> Node:
    subject, machine = report["subject"], report["machine"]
    told = {
        "Command": h("code", report["command"]),
        "Erasure": subject["name"],
        "Base": f"{subject['base']}, fingerprint {subject['fingerprint']}",
        "On top of": ", ".join(subject["on_top_of"]) or "nothing",
        "Budget": ", ".join(f"{name} {value}" for name, value in report["budget"].items()),
        "Made": f"{report['made']} on {machine['device']}, torch {machine['torch']}",
        "Took": words.span(report["seconds"]),
    }
    return listing(told)


def listing(told: Mapping[str, Any]) -> Node:
    return h("dl", *(part for name, text in told.items() for part in (h("dt", name), h("dd", text))), cls="facts")


def earlier(rows: Sequence[Row], now: str) -> Node | None:
    others = [row for row in rows if row.id != now][:8]
    buttons = [
        h("button", f"{row.title}, {words.moment(row.created)}", on="open", data_job=row.id, cls="small")
        for row in others
    ]
    return h("div", h("span", "Earlier audits: ", cls="quiet"), *buttons, cls="row") if others else None


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
