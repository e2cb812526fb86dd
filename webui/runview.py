"""A run drawn from what its log knows: status in words, bar, curves, pairs, and the buttons that make sense now."""

import math
from collections.abc import Mapping, Sequence

from engine.core.joblog import Row, State
from webui import words
from webui.story import Story, pair_up
from webui.view import Node, h

A_WHILE = 60  # seconds of work after which Stop asks once more


def is_undecided(row: Row) -> bool:
    """It has a result that was neither kept nor discarded."""
    result = row.result or {}
    return bool(result.get("results")) and not (result.get("kept") or result.get("discarded"))


def waiting() -> Node:
    return h("div", h("p", "Starting …", cls="quiet"), cls="card job", data_live="1")


def job_tree(
    row: Row, story: Story, pictures: dict[str, str], doing: str, before: int = 0, linked: bool = True
) -> Node:
    """Everything the panel shows, from what the log knows."""
    left = story.left() if row.state is State.RUNNING else None
    live = {"data_live": "1", "title_": tab_title(row, story, left, doing)} if row.state.is_live else {}
    bar = h("progress", value=f"{story.share:.4f}", max=1, aria_label="done") if row.state.is_live else None
    shown = {name: pictures[file] for name, file in story.images.items() if file in pictures}
    return h(
        "div",
        h("div", h("h3", row.title), h("span", row.state.value, cls=f"state {row.state.value}"), cls="top"),
        h("p", status(row, story, left, before), cls="status", role="status"),
        bar,
        h("div", curves(story), live_pairs(shown, story.images_step), cls="body"),
        h("div", actions(row, story), details_link(row) if linked and not row.state.is_live else None, cls="row"),
        cls="card job",
        data_job=row.id,
        data_state=row.state.value,
        **live,
    )


def status(row: Row, story: Story, left: float | None, before: int = 0) -> str:  # noqa: PLR0911 (one per state)
    """Where it stands, in a sentence."""
    at = f"step {story.step} of {story.total}"
    match row.state:
        case State.QUEUED:
            return (
                f"{words.plural(before, 'job')} before yours. You may close this page." if before else "About to start."
            )
        case State.RUNNING if not story.total:
            return "Running: getting ready."
        case State.RUNNING:
            time_left = f", about {words.span(left)} left" if left is not None else ""
            return f"{story.note[:1].upper() + story.note[1:] or 'Running'}: {at}{time_left}."
        case State.STOPPING:
            return f"Stopping at the next step ({at})."
        case State.STOPPED:
            return f"Stopped at {at}. {outcome(row)}"
        case State.DONE:
            took = words.span(row.finished - row.started) if row.finished and row.started else ""
            return f"Done in {took}. {outcome(row)}" if took else f"Done. {outcome(row)}"
        case State.FAILED:
            return f"Failed: {row.error}"
        case State.INTERRUPTED:
            place = f"at {at}" if story.total else "before the first step"
            go_on = f"Resume from step {story.snapshot}?" if story.snapshot else "Resume from the beginning?"
            return f"The server stopped {place}. {go_on}"


def outcome(row: Row) -> str:
    result = row.result or {}
    if result.get("words"):
        return result["words"]
    if result.get("deleted"):
        return "It was kept, and later deleted for good with its pictures. This record is what is left."
    if result.get("kept"):
        return "Kept, and applied to the model. You can take it back on the Recover page."
    if result.get("discarded"):
        return "The result was discarded; the model is as it was."
    if result.get("results"):
        return "Look at the result, then keep or discard it. The model itself is not changed until you keep it."
    return "Nothing was kept; the model is as it was." if row.state is State.STOPPED else ""


def actions(row: Row, story: Story) -> list[Node]:
    """The buttons that make sense now."""
    sure = row.started is not None and story.last - row.started > A_WHILE
    job = {"data_job": row.id}
    match row.state:
        case State.RUNNING if story.total:
            again = {"confirm": "Really stop? Click again"} if sure else {}
            return [
                h("button", "Stop and keep", on="stop_keep", busy="Stopping …", **job, **again),
                h("button", "Stop and discard", on="stop_discard", busy="Stopping …", cls="warn", **job, **again),
            ]
        case State.QUEUED | State.RUNNING:
            return [h("button", "Cancel", on="stop_discard", busy="Stopping …", cls="warn", **job)]
        case State.INTERRUPTED:
            return [h("button", "Resume", on="resume", busy="Resuming …", cls="main", **job)]
        case State.DONE | State.STOPPED if is_undecided(row):
            return [
                h("button", "Keep", on="keep", busy="Keeping …", cls="main", **job),
                h("button", "Discard", on="discard", busy="Discarding …", cls="warn", **job),
            ]
        case _:
            return []


def details_link(row: Row) -> Node:
    return h("a", "Details of this run", href=f"./runs?run={row.id}")


def tab_title(row: Row, story: Story, left: float | None, doing: str) -> str:
    """42% 1:10 · Erasing"""
    if row.state is State.QUEUED:
        return f"Waiting · {doing}"
    return f"{story.share:.0%}{f' {words.clock(left)}' if left is not None else ''} · {doing}"


def curves(story: Story) -> Node:
    """One small drawing per number: they have different scales. Each has its place from its first point on, and the
    drawings have theirs from the start: Gradio's page loses its way in a tree whose parts move."""
    return h("div", [curve(name, points) for name, points in story.curves.items()][:6], cls="curves")


def curve(name: str, points: Sequence[tuple[int, float]]) -> Node:
    points = [(step, value) for step, value in points if math.isfinite(value)]
    if not points:
        return h("p", f"{name}: not a number", cls="quiet")
    low, high = min(value for _, value in points), max(value for _, value in points)
    first, last = points[0][0], points[-1][0]
    wide, tall = max(last - first, 1), max(high - low, 1e-12)
    marks = [f"{300 * (step - first) / wide:.1f} {66 - 60 * (value - low) / tall:.1f}" for step, value in points]
    spoken = f"{name}: from {points[0][1]:.3g} to {points[-1][1]:.3g}"
    drawing = h("path", d=f"M{' L'.join(marks)}")
    return h(
        "figure",
        h("figcaption", name, h("b", f"{points[-1][1]:.3g}")),
        h("svg", drawing, viewBox="0 0 300 70", preserveAspectRatio="none", role="img", aria_label=spoken),
        cls="curve",
    )


def live_pairs(images: Mapping[str, str], step: int) -> Node:
    """Before and after, side by side; other pictures with their names."""
    pairs, alone = pair_up(images)
    drawn = [
        h(
            "figure",
            h("img", src=before, alt=f"Before{': ' + label if label else ''}"),
            h("img", src=after, alt=f"After step {step}{': ' + label if label else ''}"),
            h("figcaption", h("span", "before"), h("span", label) if label else None, h("span", f"step {step}")),
            cls="pair",
        )
        for label, before, after in pairs
    ]
    drawn += [h("figure", h("img", src=source, alt=name), h("figcaption", name)) for name, source in alone]
    return h("div", drawn, cls="pairs")


def metric_card(what: str, says: str, number: str, tone: str = "") -> Node:
    """Words first, number second: metric_card("Glasses", "Nearly gone", "3 of 200 samples, was 96", "good")."""
    return h(
        "div", h("p", what, cls="what"), h("p", says, cls="says"), h("p", number, cls="number"), cls=f"metric {tone}"
    )


def unchecked(verdict: Mapping[str, str]) -> Node:
    """In the place of the cards, when a run was stopped before its check or the check could not be made."""
    return h("p", f"Not checked: {verdict['unchecked']}", cls="quiet")


def metric_cards(cards: Sequence[Node]) -> Node:
    return h("div", *cards, cls="metrics")
