"""Runs: everything this owner has done, and one run in full (?run=id)."""

import time

import gradio as gr

from engine.core.errors import UserError
from engine.core.joblog import Row, State
from engine.studio import Studio
from webui import pictures, words
from webui.events import bind, said
from webui.owner import owner_of
from webui.pages import Page, pages
from webui.panels import JobPanel
from webui.runfiles import RunDrop
from webui.runlist import EVENTS, run_list
from webui.runview import metric_card, metric_cards
from webui.tworuns import settings_of, two_runs
from webui.view import Node, View, h

MOST_LINES = 200
MOST_PICTURES = 24


def build(studio: Studio, demo: gr.Blocks) -> None:
    head = View([h("h1", "Runs")])
    trouble = View()
    panel = JobPanel(studio, belongs=lambda row: True, find=watched, doing="Running")
    detail = View()
    listed = View(events=EVENTS)
    with gr.Column(visible=False) as takes_in:
        View([h("h2", "Import a run"), h("p", IMPORT, cls="quiet")])
        drop = RunDrop()
    panel.watch(demo, parts=[detail], look=lambda row, owner: {detail: in_full(studio, row, owner)}, look_at_once=True)
    outputs = [head, trouble, listed, takes_in]

    def refreshed(request: gr.Request) -> dict:
        return {listed: card(run_list(studio.runs(owner_of(request))))}

    @said(trouble)
    def load(request: gr.Request) -> dict:
        job, other, owner = *asked(request), owner_of(request)
        if job is None:
            title = [h("h1", "Runs"), h("p", LEAD, cls="lead")]
            return {**refreshed(request), head: title, takes_in: gr.update(visible=True)}
        row, back = studio.run(job, owner), h("p", h("a", "← All runs", href="./runs"))
        if other is not None:
            return {head: [back, h("h1", "Two runs")], listed: two_runs(row, studio.run(other, owner))}
        return {head: [back, h("h1", row.title)]}

    @said(trouble)
    def resume(event: gr.EventData, request: gr.Request) -> dict:
        return {listed: leave_for(studio.resume(event.job, owner=owner_of(request)))}

    @said(trouble)
    def repeat(event: gr.EventData, request: gr.Request) -> dict:
        return {listed: leave_for(studio.repeat(event.job, owner=owner_of(request)))}

    @said(trouble)
    def delete(event: gr.EventData, request: gr.Request) -> dict:
        studio.delete_run(event.job, owner=owner_of(request))
        return refreshed(request)

    bind(demo.load, load, None, outputs)
    bind(listed.resume, resume, None, outputs)
    bind(listed.repeat, repeat, None, outputs)
    bind(listed.delete, delete, None, outputs)
    bind(drop.taken, said(trouble)(refreshed), None, outputs)


LEAD = "What you have done here, newest first. Nobody else sees your runs."
IMPORT = (
    "The zip of a run that was exported here or elsewhere. Everything in it is checked; its erasure is kept and not "
    "applied. Pictures of a person who came by photo never travel."
)
NEAR = 8  # other runs offered to be set beside one


def asked(request: gr.Request) -> tuple[str | None, str | None]:
    """The run that the address names, and the one to set beside it."""
    query = dict(request.query_params)
    return query.get("run") or None, query.get("with") or None


def watched(request: gr.Request) -> str | None:
    """Two runs are looked at, not watched."""
    job, other = asked(request)
    return job if other is None else None


def card(body: Node) -> Node:
    return h("div", body, cls="card")


def leave_for(job: str) -> Node:
    return h("p", "One moment …", go=f"./runs?run={job}")


def in_full(studio: Studio, row: Row, owner: str) -> Node:
    """Settings, scores, pictures and log of one run."""
    events = list(studio.follow(row.id, owner=owner, patience=0))
    return h(
        "div",
        h(
            "div",
            h("section", h("h2", "Settings"), settings(row), cls="card"),
            h("section", h("h2", "Scores"), scores(row), cls="card"),
            cls="cards halves",
        ),
        shots(studio, row, owner, [data for _, data in events]),
        beside(studio, row, owner),
        h("details", h("summary", "Log"), h("pre", log_text(row, [data for _, data in events]), tabindex="0")),
        cls="column-of",
    )


def beside(studio: Studio, row: Row, owner: str) -> Node | None:
    """Other runs to set beside this one, those of the same model first, and the run as a file."""
    others = [other for other in studio.runs(owner) if other.id != row.id and other.kind == row.kind]
    others.sort(key=lambda other: other.params.get("base") != row.params.get("base"))  # stable: newest first
    links = [
        h("li", h("a", f"{other.title}, {words.moment(other.created)}", href=f"./runs?run={row.id}&with={other.id}"))
        for other in others[:NEAR]
    ]
    compare = h("details", h("summary", "Compare with another run"), h("ul", *links)) if links else None
    can_go = row.kind == "forget" and row.state in (State.DONE, State.STOPPED, State.FAILED)
    export = h("p", h("a", "Export this run as a zip", href=f"./run-files/{row.id}", download="")) if can_go else None
    return h("div", export, compare) if export or compare else None


def settings(row: Row) -> Node:
    prints = (row.result or {}).get("fingerprints", ())
    came = (row.result or {}).get("from")
    facts = {
        "Run": row.id,
        **({"Imported from run": came} if came else {}),
        "Begun": words.moment(row.started or row.created),
        **settings_of(row),
        **({"Delta's fingerprint": ", ".join(prints)} if prints else {}),
    }
    return h("dl", *(part for name, value in facts.items() for part in (h("dt", name), h("dd", value))), cls="facts")


def scores(row: Row) -> Node:
    """Measured by the method itself; a proper check is a run of its own."""
    scalars = (row.result or {}).get("scalars", {})
    if not scalars:
        return h("p", "No scores: the run has no result." if row.error or not row.result else "None yet.", cls="quiet")
    cards = [metric_card(name.replace("_", " "), f"{value:.3g}", "at the last step") for name, value in scalars.items()]
    return metric_cards(cards)


def shots(studio: Studio, row: Row, owner: str, events: list[dict]) -> Node | None:
    """The pictures it has shown, in order; what was before only once."""
    shown = [(data["step"], name, file) for data in events for name, file in data.get("images", {}).items()]
    first = next((step for step, _, _ in shown), 0)
    shown = [(step, name, file) for step, name, file in shown if step == first or not name.startswith("before")]
    if not shown:
        return None
    drawn = []
    for step, name, file in shown[-MOST_PICTURES:]:
        try:
            source = pictures.webp_uri(studio.preview(row.id, file, owner))
        except UserError:
            continue  # pictures of a person's photo are dropped when a run is decided
        told = f"{name.replace('-', ' ')}, step {step}"
        drawn.append(h("figure", h("img", src=source, alt=told), h("figcaption", told)))
    return drawn and h("section", h("h2", "Pictures"), h("div", *drawn, cls="faces"), cls="card")


def log_text(row: Row, events: list[dict]) -> str:
    lines = [f"{clock(row.created)}  asked for: {row.title}"]
    for data in events[-MOST_LINES:]:
        if "snapshot" in data:
            lines.append(f"{clock(data['t'])}  snapshot at step {data['snapshot']}")
            continue
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in data.get("scalars", {}).items())
        lines.append(f"{clock(data['t'])}  step {data['step']} of {data['total']}  {data.get('note', '')}{numbers}")
    if row.finished:
        lines.append(f"{clock(row.finished)}  {row.state.value}{': ' + row.error if row.error else ''}")
    return "\n".join(lines)


def clock(stamp: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(stamp))


pages["runs"] = Page("Runs", "runs", 70, build)
