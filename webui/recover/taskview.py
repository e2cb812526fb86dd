"""A session of tasks in words and cards: what each task is, what it costs, who reads it, what can be done with it."""

from collections.abc import Mapping, Sequence
from typing import Any

from webui import words
from webui.recover.taskplots import bits_plot, bits_table, dependents_graph, heat_map, overlap_map
from webui.runview import metric_card, metric_cards
from webui.view import Node, h

STATES = {"live": ("learned", "done"), "forgotten": ("forgotten", "stopped"), "new": ("not learned yet", "")}
KINDS = ("mask", "index", "weights", "norm", "head", "snapshot")
WAYS = {"one-shot": "one pass of entropy", "binary": "binary search", "try-each": "trying each task", "given": "you"}


def about(info: Any) -> Node:
    """A method, in its own words, and what it promises."""
    promises = [
        "Old tasks stay, and a forgotten one returns, bit for bit."
        if info.exact
        else "Old tasks move a little with every new one; how much is measured and shown.",
        "Tasks read nothing of each other, so one can leave without a trace."
        if info.order_free
        else "Later tasks may read what earlier ones left; the page shows who reads whom.",
        "It can find out by itself which task a picture belongs to." if info.finds_task else None,
        "A reference to compare with, not a method of the family." if info.is_reference else None,
    ]
    return h("div", h("p", info.words), h("ul", *(h("li", text) for text in promises if text)), cls="small")


def session_list(summaries: Sequence[Mapping[str, Any]], current: str) -> Node | None:
    if not summaries:
        return None
    rows = [session_line(summary, summary["name"] == current) for summary in summaries]
    head = h("tr", *(h("th", name, scope="col") for name in ("Network", "Tasks", "Accuracy", "Actions")))
    return h(
        "section", h("h2", "Your networks"), h("table", h("thead", head), h("tbody", *rows), cls="stack"), cls="card"
    )


def session_line(summary: Mapping[str, Any], is_open: bool) -> Node:
    name = summary["name"]
    gone = h("button", "Delete", on="delete", confirm="Delete for good?", cls="small warn", data_session=name)
    if "trouble" in summary:
        return h("tr", h("td", name), h("td", summary["trouble"], colspan=2), h("td", gone))
    opened = h("button", "Open", on="open", cls="small", data_session=name)
    opened = h("span", "open", cls="state running") if is_open else opened
    tasks = f"{len(summary['live'])} learned" + (
        f", {len(summary['forgotten'])} forgotten" if summary["forgotten"] else ""
    )
    score = f"{summary['accuracy']:.1%}" if "accuracy" in summary else ""
    return h(
        "tr",
        h("td", h("b", summary["title"]), h("div", name, cls="quiet small"), cls="wide"),
        h("td", tasks),
        h("td", score),
        h("td", h("div", opened, gone, cls="row"), cls="wide"),
    )


def board(session: Mapping[str, Any], pictures: Mapping[int, Sequence[str]], is_busy: bool) -> Node:
    """Everything about one session but its plots."""
    method = session["method"]
    told = f"{session['title']}, {session['steps']} batches a task, seed {session['seed']}."
    if session["pretraining"]:
        told += f" Its network was first trained on {session['pretraining']}."
    cards = [task_card(session, line, pictures.get(line["task"], ()), is_busy) for line in session["tasks"]]
    head = h("div", h("h2", method["title"]), h("p", told, cls="quiet"), cls="session-head")
    return h("div", head, facts(session), h("div", *cards, cls="task-cards"), data_session=session["name"])


def facts(session: Mapping[str, Any]) -> Node | None:
    found, exact = session["facts"], session["method"]["exact"]
    if not found:
        return None
    lost = found["forgetting"]
    kept = "Nothing was lost" if lost == 0 else f"{100 * lost:.1f} points were lost"
    promise = "promised: none" if exact else "not promised: old tasks drift"
    tone = "good" if lost == 0 else "warn" if not exact else "bad"
    return metric_cards(
        [
            metric_card("Accuracy", f"{found['accuracy']:.1%}", "mean over learned tasks, test pictures"),
            metric_card(
                "A task costs", words.weight(found["bits"] / 8), f"{words.weight(found['coded bits'] / 8)} packed"
            ),
            metric_card("By learning others", kept, promise, tone),
            metric_card("Serving state", session["hash"][:12], "SHA-256 of every byte it serves with"),
        ]
    )


def task_card(session: Mapping[str, Any], line: Mapping[str, Any], shown: Sequence[str], is_busy: bool) -> Node:
    word, tone = STATES[line["state"]]
    strip = h("div", *(h("img", src=source, alt="", loading="lazy") for source in shown), cls="samples")
    inside = {"live": live_part, "forgotten": forgotten_part, "new": new_part}[line["state"]]
    return h(
        "article",
        h("div", h("h3", f"Task {line['task']}"), h("span", word, cls=f"state {tone}"), cls="spread"),
        h("p", line["name"], cls="quiet small"),
        strip,
        inside(session, line, {"data_session": session["name"], "data_task": line["task"], "disabled": is_busy and ""}),
        cls=f"card task {line['state']}",
        data_task=line["task"],
        data_state=line["state"],
    )


def new_part(session: Mapping[str, Any], line: Mapping[str, Any], place: Mapping[str, Any]) -> Node:
    return h("div", h("div", h("button", "Learn", on="learn", cls="small main", **place), cls="row"))


def live_part(session: Mapping[str, Any], line: Mapping[str, Any], place: Mapping[str, Any]) -> Node:
    sizes = {kind: line["bits"][kind] / 8 for kind in KINDS if line["bits"][kind]}
    parts = ", ".join(f"{words.weight(size)} {kind}" for kind, size in sizes.items())
    readers = list(map(str, line["dependents"]))
    built = f"{words.plural(len(readers), 'later task')} {'was' if len(readers) == 1 else 'were'} built on it: "
    return h(
        "div",
        h("p", h("b", f"{line['score']:.1%}"), " right on test pictures"),
        h("p", f"{words.weight(sum(sizes.values()))}: {parts}.", cls="quiet small"),
        h("p", f"{built}{', '.join(readers)}.", cls="small") if readers else None,
        h("p", "Back beside its old place, which others use now.", cls="small") if line["overlay"] else None,
        h("div", h("button", "Forget", on="forget", cls="small", data_mode="mask", **place), cls="row"),
        None if session["method"]["order_free"] else other_ways(place),
    )


def other_ways(place: Mapping[str, Any]) -> Node:
    return h(
        "details",
        h("summary", "Other ways to forget"),
        h("p", "Forget leaves the weights that other tasks may read. These two do not.", cls="quiet small"),
        h(
            "div",
            h("button", "And its own weights", on="forget", cls="small", data_mode="exclusive", **place),
            h("button", "And what was built on it", on="forget", cls="small", data_mode="cascade", **place),
            cls="row",
        ),
        cls="small",
    )


def forgotten_part(session: Mapping[str, Any], line: Mapping[str, Any], place: Mapping[str, Any]) -> Node:
    receipt = last_forgetting(session["receipts"], line["task"])
    grades = receipt.get("grades", {})
    readers = ", ".join(f"task {task} ({why})" for task, why in receipt.get("kept_for", {}).items())
    kept = f", some are kept for {readers}" if readers else ""
    influence = {True: "yes", False: "no", None: "only a twin run could tell"}[grades.get("influence")]
    return h(
        "div",
        h(
            "ul",
            h("li", "Asking for it is refused."),
            h("li", f"None of its own bytes left: {'yes' if grades.get('storage') else 'no'}{kept}."),
            h("li", f"As if it had never been learned: {influence}."),
            cls="small",
        ),
        h("p", line["vault"], cls="quiet small file"),
        h(
            "div",
            h("button", "Restore", on="restore", cls="small main", **place),
            h("a", "Download its file", href=f"./vaults/{session['name']}/{line['task']}", download=""),
            cls="row",
        ),
    )


def last_forgetting(receipts: Sequence[Mapping[str, Any]], task: int) -> Mapping[str, Any]:
    """The receipt of the last time this task left, alone or along with another."""
    for receipt in reversed(receipts):
        if receipt["event"] == "forget":
            for one in (receipt, *receipt["also"]):
                if one["task"] == task:
                    return one
    return {}


def plots(session: Mapping[str, Any], dots: Sequence[Mapping[str, Any]]) -> list[Node]:
    """Heat map, overlap, dependents, bits against accuracy."""
    drawn = []
    if session["matrix"]:
        drawn.append(
            h(
                "section",
                h("h2", "Accuracy after each step"),
                h(
                    "p",
                    "Per cent of each task's test pictures. A row is a step: learned, forgot or restored.",
                    cls="quiet",
                ),
                heat_map(session["matrix"], len(session["tasks"])),
                cls="card",
            )
        )
        drawn.append(h("div", sharing(session), dependence(session), cls="cards halves"))
    if dots:
        drawn.append(
            h(
                "section",
                h("h2", "What a task costs"),
                h("p", f"{session['title']}: bytes of one task against mean accuracy. {whose(dots)}", cls="quiet"),
                bits_plot(dots),
                bits_table(dots),
                cls="card",
            )
        )
    return drawn


def whose(dots: Sequence[Mapping[str, Any]]) -> str:
    if all(dot["kind"] == "own" for dot in dots):
        return "Only your own networks: the benchmark has not measured this split."
    return "All methods as the benchmark measured them, and your own networks."


def sharing(session: Mapping[str, Any]) -> Node:
    overlap = session["overlap"]
    body = overlap_map(overlap) if len(overlap) > 1 else h("p", "Two learned tasks with masks are needed.", cls="quiet")
    told = "Of the weights or units that two tasks use, the share that both use, in per cent."
    return h("section", h("h2", "Mask overlap"), h("p", told, cls="quiet"), body, cls="card")


def dependence(session: Mapping[str, Any]) -> Node:
    told = "An arrow goes from a task to one that was built on it."
    return h(
        "section", h("h2", "Who reads whom"), h("p", told, cls="quiet"), dependents_graph(session["tasks"]), cls="card"
    )


def answer(said: Mapping[str, Any], names: Mapping[int, str], beside: int) -> Node:
    """What the network said of a picture, beside what it is."""
    sure = [h("li", f"Task {task}: {share:.0%}") for task, share in sorted(said["belief"].items(), key=lambda i: -i[1])]
    belief = h("details", h("summary", "How much it leans to each task"), h("ul", *sure)) if sure else None
    how = f"{WAYS[said['by']]}, from {words.plural(1 + beside, 'picture')}" if said["by"] != "given" else "named by you"
    if said["task"] == "unknown":
        alone = " With one learned task there is nothing to compare it with." if len(said["belief"]) == 1 else ""
        told = f"No learned task stands out ({how}).{alone} It is {said['truth']}."
        return h("div", h("p", h("b", "Unknown.")), h("p", told), cls="note")
    label, task = said["labels"][0], said["task"]
    right = label == said["truth"]
    return h(
        "div",
        h(
            "p",
            h("b", label),
            f", sure by {said['margin'][0]:.2f}. ",
            f"Right: it is {said['truth']}." if right else f"In truth it is {said['truth']}.",
        ),
        h("p", f"Answered by task {task}, {names[task]} ({how})."),
        belief,
        cls="done" if right else "trouble",
        data_right=int(right),
    )
