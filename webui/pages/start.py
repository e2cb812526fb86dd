"""Start: what this is, what the machine can do, three ways in, and the last runs."""

import gradio as gr

from engine.core.errors import UserError
from engine.studio import Studio
from webui import pictures
from webui.events import bind, error_box, said
from webui.owner import owner_of
from webui.pages import Page, pages
from webui.runlist import run_list
from webui.view import Node, View, h, icon

LAST = 5
TASKS = (
    ("feature", "Erase a feature", "Glasses, hats, beards: label a few samples and the generator stops drawing them.",
     "Label samples"),
    ("identity", "Erase a person", "One face, and the generator turns it into somebody who does not exist.",
     "Choose a person"),
    ("recover", "Give it back", "An erasure is a small file beside the model. Leave it out and the model is as before.",
     "See erasures"),
)  # fmt: skip


def build(studio: Studio, demo: gr.Blocks) -> None:
    hero = View(hero_tree(studio, None))
    View([h("h2", "What would you like to do?"), h("div", *(task(*words) for words in TASKS), cls="cards")])
    trouble = View()
    runs = View(events=("resume",))

    def faces() -> dict:
        return {hero: hero_tree(studio, portraits(studio))}

    @said(trouble)
    def last_runs(request: gr.Request) -> dict:
        return {runs: recent(studio, owner_of(request))}

    @said(trouble)
    def resume(event: gr.EventData, request: gr.Request) -> dict:
        job = studio.resume(event.job, owner=owner_of(request))
        return {runs: h("p", "Resuming …", go=f"./runs?run={job}")}

    bind(demo.load, last_runs, None, [runs, trouble])
    bind(demo.load, faces, None, hero)
    bind(runs.resume, resume, None, [runs, trouble])


def hero_tree(studio: Studio, faces: Node | None) -> Node:
    words = h(
        "div",
        h("p", "An unlearning studio", cls="eyebrow"),
        h("h1", "Teach a generator to forget."),
        h(
            "p",
            "Take a feature or a face out of an image generator, watch it happen, measure what is left, "
            "and take it back whenever you like.",
            cls="lead",
        ),
        h("p", machine_line(studio.machine()), cls="machine"),
    )
    empty = h("div", *(h("span", cls="face-wait") for _ in pictures.FACES), cls="faces", aria_hidden="true")
    return h("div", words, faces or empty, cls="hero")


def machine_line(machine: dict) -> str:
    """CPU, 2 cores, 23 GB of memory and 40 GB of disk free."""
    kind = {"cpu": "CPU", "mps": "Apple GPU"}.get(machine["device"], f"GPU ({machine['device']})")
    memory = f"{machine['free memory GB']:.0f} GB of memory and " if machine["free memory GB"] else ""
    return f"This machine: {kind}, {machine['cores']} cores, {memory}{machine['free disk GB']:.0f} GB of disk free."


def portraits(studio: Studio) -> Node:
    """Faces that the default generator draws now: real output, not decoration."""
    base = studio.default_base()
    size = pictures.small(studio, base)
    try:
        drawn = pictures.samples(studio, base, pictures.FACES, size=size)
    except UserError as error:
        return error_box(str(error))
    shown = zip(pictures.FACES, drawn, strict=True)
    images = [h("img", src=source, alt=f"Generated face, seed {seed}") for seed, source in shown]
    return h("div", *images, cls=f"faces{' pixel' if size < 64 else ''}")


def task(path: str, title: str, text: str, go: str) -> Node:
    return h("a", icon(path), h("h3", title), h("p", text), h("p", f"{go} →", cls="go"), cls="card", href=f"./{path}")


def recent(studio: Studio, owner: str) -> Node:
    rows = studio.runs(owner)
    more = h("a", "All runs", href="./runs") if len(rows) > LAST else None
    listed = run_list(rows[:LAST], everything=False)
    return h("div", h("div", h("h2", "Your last runs"), more, cls="spread"), h("div", listed, cls="card"))


pages["start"] = Page("Start", "", 0, build)
