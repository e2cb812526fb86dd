"""A comparison to send to somebody: one HTML file that needs nothing else, or one picture.

GET /comparison.html?base=…    the same grid as on the page, with its slider and views, and the measured cards
GET /comparison.png?base=…     all pairs on one sheet

The report is made of the page's own components: their scripts run on a few words that stand in for Gradio's.
"""

import base64
import html
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from PIL import Image, ImageDraw, ImageFont

from engine.studio import Studio
from webui import pictures
from webui.changecards import change_cards
from webui.comparison import Comparison, codes, drawn, in_words
from webui.theme import MONO, SANS
from webui.transfer import given
from webui.view import Node, h

HERE = Path(__file__).parent
AT_LEAST = 256  # px of a picture in a report, where the model makes so large ones
NOTHING_OUT = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
STANDS_IN = (
    "const element = document.getElementById({place}), props = {props}, trigger = () => {{}}, watch = () => {{}};"
)
COLUMNS, GAP, LINE, SMALLEST = 4, 16, 24, 128  # px but the first
PAPER, INK, SOFT = "#fffdf9", "#1c2327", "#565a58"


def add_routes(app: FastAPI, studio: Studio, is_welcome: Callable[[Request], bool]) -> None:
    """Both are made when asked for, from what the address says, for who may see it."""

    def answer(request: Request, kind: str, make: Callable[[Comparison, str], bytes]) -> Any:
        def file(owner: str) -> Response:
            content = make(Comparison.read(request.query_params), owner)
            name = f"comparison-{datetime.now():%Y%m%d-%H%M}.{kind.rpartition('/')[2]}"
            return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})

        return given(request, is_welcome, file, status=400)

    @app.get("/comparison.html")
    def as_page(request: Request) -> Any:
        return answer(request, "text/html", lambda asked, owner: report(studio, asked, owner).encode())

    @app.get("/comparison.png")
    def as_picture(request: Request) -> Any:
        return answer(request, "image/png", lambda asked, owner: sheet(studio, asked, owner))


def report(studio: Studio, asked: Comparison, owner: str) -> str:
    size = pictures.small(studio, asked.base, AT_LEAST) if asked.of != "run" else 0
    shown, facts = drawn(studio, asked, size, owner), in_words(studio, asked, owner)
    cards = None
    if asked.of != "run":
        psi = asked.truncation
        found = studio.measure(
            asked.base, asked.left, asked.right, list(codes(studio, asked, owner)), psi=psi, owner=owner
        )
        cards = change_cards(found)
    return page(facts, cards, shown)


def page(facts: Mapping[str, str], cards: Node | None, shown: Mapping[str, Any]) -> str:
    """One file: words, cards, grid, and the scripts and sheets they need."""
    said = h("dl", *(part for name, text in facts.items() for part in (h("dt", name), h("dd", text))), cls="facts")
    made = f"Made with Lethe on {datetime.now():%d %B %Y, %H:%M}. Nothing in this file asks any other address."
    head = [
        h("p", "Lethe", cls="eyebrow"),
        h("h1", "Before and after"),
        h("div", said, cls="card"),
        *([cards] if cards else []),
    ]
    fonts = f":root {{ --font: {names(SANS)}; --font-mono: {names(MONO)}; }}"
    sheets = "".join((HERE / f"{name}.css").read_text() for name in ("style", "compare"))
    frame = "main { max-width: 1120px; margin: 0 auto; padding: 32px 20px; display: grid; gap: 24px; }"
    frame += " .view { display: grid; gap: 18px; }"
    dark = 'if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.classList.add("dark");'
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{html.escape(NOTHING_OUT)}">
<title>Before and after · Lethe</title>
<style>{fonts}{sheets}{frame}</style>
<script>{dark}</script>
<main>
<div id="words"><div class="view"></div></div>
<div id="compare">{(HERE / "compare.html").read_text()}</div>
<div id="end"><div class="view"></div></div>
</main>
{running("words", "view", {"value": head})}
{running("compare", "compare", {**shown, "large": None})}
{running("end", "view", {"value": [h("p", made, cls="quiet small")]})}
</html>
"""


def running(place: str, script: str, props: Mapping[str, Any]) -> str:
    """A component's own script, with what Gradio would give it. No text in `props` can end the script."""
    said = json.dumps(props).replace("<", "\\u003c")
    before = STANDS_IN.format(place=json.dumps(place), props=said) + (" const events = [];" if script == "view" else "")
    return f"<script>(() => {{ {before}\n{(HERE / f'{script}.js').read_text()} }})();</script>"


def names(fonts: Sequence[str]) -> str:
    return ", ".join(f'"{font}"' if " " in font else font for font in fonts)


def sheet(studio: Studio, asked: Comparison, owner: str) -> bytes:
    """All pairs, before and after side by side, under what is compared. Of a run's steps the last is the after."""
    size = pictures.small(studio, asked.base, AT_LEAST) if asked.of != "run" else 0
    shown, facts = drawn(studio, asked, size, owner), in_words(studio, asked, owner)
    sides = [[opened(p["a"]), opened(p["b"][-1] if shown["steps"] else p["b"])] for p in shown["value"]]
    if shown["steps"]:
        facts["To step"] = str(shown["steps"][-1])
    side = sides[0][0].width
    columns = min(COLUMNS, len(sides))
    wide = columns * (2 * side + GAP) + GAP
    top = GAP + LINE * len(facts) + GAP
    rows = -(-len(sides) // columns)
    made = Image.new("RGB", (max(wide, 640), top + rows * (side + LINE + GAP)), PAPER)
    pen, font = ImageDraw.Draw(made), ImageFont.load_default(size=15)
    for number, (name, text) in enumerate(facts.items()):
        pen.text((GAP, GAP + LINE * number), plain(f"{name}: {text}"), INK, font)
    for number, ((before, after), pair) in enumerate(zip(sides, shown["value"], strict=True)):
        x, y = GAP + number % columns * (2 * side + GAP), top + number // columns * (side + LINE + GAP)
        made.paste(before, (x, y))
        made.paste(after, (x + side, y))
        pen.text((x, y + side + 3), plain(f"before | after, {pair['label']}"), SOFT, font)
    file = io.BytesIO()
    made.save(file, "PNG")
    return file.getvalue()


def opened(source: str) -> Image.Image:
    """From a data address. A tiny picture is enlarged with its pixels, as on the page."""
    found = Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))).convert("RGB")
    return found if found.width >= SMALLEST else found.resize((SMALLEST, SMALLEST), Image.Resampling.NEAREST)


def plain(text: str) -> str:
    """The built-in font has few signs."""
    return text.translate({ord(sign): '"' for sign in "“”„"}).encode("latin-1", "replace").decode("latin-1")
