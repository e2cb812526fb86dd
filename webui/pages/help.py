"""Help: how it goes, the words, the keys, privacy, and the way in from a script."""

from collections.abc import Callable

import gradio as gr

from engine.studio import Studio
from webui.endpoints import Endpoints, called, words
from webui.pages import Page, pages
from webui.view import Node, View, h

WORDS = (
    ("base", "An image generator as it came. It is never changed."),
    ("erasure", "A small file of differences that makes the base forget one thing. Kept, it is applied to the base; "
     "left out, the base is as before, bit for bit."),
    ("sample", "A picture drawn from a seed. The same seed gives the same picture."),
    ("with / without", "Your two answers when you label: the sample shows the feature, or it does not."),
    ("truncation", "How far samples may stray from the average face. Small values look alike and clean."),
    ("interrupted", "The server stopped during a run. It goes on from its last snapshot when you press Resume."),
)  # fmt: skip
KEYS = (
    ("← → ↑ ↓ or h j k l", "move in the grid"), ("y, 1 or a", "has it, go on"), ("n, 0 or x", "has it not, go on"),
    ("u or Delete", "clear this one"), ("Space", "enlarge while held"), ("Backspace or Ctrl+Z", "undo"),
    ("Shift+click or drag", "label a range"), ("g", "to the grid"), ("b", "next batch"), ("Ctrl+S", "save now"),
    ("Ctrl+Enter", "run"), ("Esc", "stop and keep"), ("v, s, f, d", "slider, side by side, flip, difference"),
    ("?", "the list of keys, on any page"),
)  # fmt: skip
SCRIPT = """\
from engine.core.targets import Seeds
from engine.studio import Studio

studio = Studio()
job = studio.forget("tiny", Seeds((3,)), "ascent", {"steps": 40})
studio.wait(job)
name, = studio.keep(job)
before, = studio.sample("tiny", [3])
after, = studio.sample("tiny", [3], [name])
"""
OVER_HTTP = """\
from gradio_client import Client

client = Client("http://127.0.0.1:7860")
run = client.predict(seeds="3", api_name="/erase_seeds")
print(client.predict(run=run, api_name="/wait"))
client.predict(run=run, api_name="/keep")
before, = client.predict(seeds="3", erasures=[], api_name="/sample")
after, = client.predict(seeds="3", api_name="/sample")
"""


def build(studio: Studio, demo: gr.Blocks) -> None:
    View(
        [
            h("h1", "Help"),
            h(
                "p",
                "Lethe makes an image generator forget: a feature such as glasses, or one person's face.",
                cls="lead",
            ),
            h("p", h("a", "Take the two-minute tour", href="./?tour"), " over the pages, at any time."),
        ]
    )
    View(
        h(
            "div",
            section("How it goes", steps()),
            section("Privacy", privacy()),
            section("Words", facts(WORDS)),
            section(
                "Keys", h("dl", *(part for k, v in KEYS for part in (h("dt", h("kbd", k)), h("dd", v))), cls="facts")
            ),
            cls="cards halves",
        )
    )
    View(section("From a script", scripts()))


def section(title: str, body: object) -> Node:
    return h("section", h("h2", title), body, cls="card")


def facts(pairs: tuple) -> Node:
    return h("dl", *(part for name, text in pairs for part in (h("dt", name), h("dd", text))), cls="facts")


def steps() -> Node:
    return h(
        "ol",
        h("li", "Say what to forget: label samples of a feature, or choose a person."),
        h("li", "Erase. You see pairs before and after while it runs, and may stop at any step."),
        h("li", "Check what is gone, what else has changed, and how good the pictures still are."),
        h("li", "Keep or discard. A kept erasure can be taken back at any time."),
        h("li", "Audit: attacks try to bring back what was erased, and the report says how often they did."),
    )


def privacy() -> Node:
    return h(
        "ul",
        h("li", "Nothing leaves this machine: the page's rules forbid the browser to ask any other host."),
        h(
            "li",
            "A photo is read in memory and dropped after the run. The record of the run holds words, not the photo.",
        ),
        h(
            "li",
            "A base still knows what an erasure hides. Give a model away only with its erasures baked in.",
        ),
        h("li", "An erasure made for one person points at that person's face: treat the file as personal data."),
        h("li", "Your runs and labels belong to this browser, or to your name if this studio asks for one."),
    )


def scripts() -> list[Node]:
    listed = Endpoints.listed()
    said = [
        part for name, fn in listed.items() for part in (h("dt", h("code", called(name, fn))), h("dd", *marked(fn)))
    ]
    return [
        h("p", "Everything on these pages goes through one class, so a script can do it too. On the command line, ",
          h("code", "python app.py --help"), " lists the same journeys."),
        h("pre", h("code", SCRIPT), tabindex="0"),
        h("p", "Over HTTP this server answers to named endpoints, with its password if it asks for one. Pictures and "
          "photos travel as base64 text, and a photo is never written to the disk."),
        h("pre", h("code", OVER_HTTP), tabindex="0"),
        h("details", h("summary", f"All {len(listed)} endpoints"), h("dl", *said, cls="endpoints")),
    ]  # fmt: skip


def marked(fn: Callable) -> list[Node | str]:
    """What an endpoint's docstring says, with its `names` as code."""
    parts = words(fn).split("`")
    return [h("code", part) if index % 2 else part for index, part in enumerate(parts) if part]


pages["help"] = Page("Help", "help", 90, build)
