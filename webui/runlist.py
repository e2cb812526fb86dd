"""A list of runs, for the start page and the Runs page. The view needs the events it names in `EVENTS`."""

from collections.abc import Sequence

from engine.core.joblog import Row, State
from webui import words
from webui.view import Node, h

EVENTS = ("resume", "repeat", "delete")


def run_list(rows: Sequence[Row], *, everything: bool = True) -> Node:
    """`everything` adds Repeat and Delete."""
    if not rows:
        return h("p", "Nothing yet. What you erase will be listed here, with its settings and scores.", cls="quiet")
    head = h("tr", *(h("th", name, scope="col") for name in ("What", "When", "State", "Actions")))
    return h("table", h("thead", head), h("tbody", *(line(row, everything) for row in rows)), cls="stack")


def line(row: Row, everything: bool) -> Node:
    return h(
        "tr",
        h("td", h("a", row.title, href=f"./runs?run={row.id}"), h("div", detail(row), cls="quiet small"), cls="wide"),
        h("td", h("time", words.moment(row.created))),
        h("td", state(row)),
        h("td", h("div", buttons(row, everything), cls="row"), cls="wide"),
        data_run=row.id,
    )


def state(row: Row) -> Node:
    """The state in a word; what became of the result says more than "done"."""
    result = row.result or {}
    said = (
        "deleted"
        if result.get("deleted")
        else "kept"
        if result.get("kept")
        else "discarded"
        if result.get("discarded")
        else row.state.value
    )
    tone = {"kept": "kept", "deleted": "stopped"}.get(said, row.state.value)
    return h("span", said, cls=f"state {tone}")


def detail(row: Row) -> str:
    method, base = row.params.get("method", row.kind), row.params.get("base", "")
    took = f", {words.span(row.finished - row.started)}" if row.finished and row.started else ""
    return f"{method} on {base}{took}"


def buttons(row: Row, everything: bool) -> list[Node]:
    job, found = {"data_job": row.id}, []
    if row.state is State.INTERRUPTED:
        found.append(h("button", "Resume", on="resume", busy="Resuming …", cls="small main", **job))
    if everything and not row.state.is_live:
        found.append(h("button", "Repeat", on="repeat", busy="Starting …", cls="small", **job))
        if row.kind == "forget" and row.state is not State.INTERRUPTED:
            found.append(h("a", "Export", href=f"./run-files/{row.id}", download="", cls="small"))
        found.append(
            h("button", "Delete", on="delete", confirm="Delete for good?", busy="Deleting …", cls="small warn", **job)
        )
    return found
