"""Preview: what erasing would do, before anything is trained. A histogram, a share, and six samples to slide."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from engine.core.targets import Labels
from engine.studio import Studio
from webui import pictures
from webui.events import bind, said
from webui.owner import owner_of
from webui.view import Node, View, h

REACH = 4.0  # standard deviations to each side
WIDE, TALL = 560, 120
KINDS = (("random", "random samples"), ("lacking", "labelled without"), ("having", "labelled with"))


class Preview:
    """`asked(data, owner)` gives the labels and the method's settings; `inputs` are the components it reads."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.button = gr.Button("Preview", interactive=False, elem_classes=["side"])
        self.told = View(elem_id="preview")
        self.slider = gr.Slider(
            -REACH, REACH, value=0, step=0.5, label="Along the feature: away from it, or towards it", visible=False
        )
        self.strip = View(elem_id="slid")
        self.token = gr.State("")

    def bind(self, asked: Callable[[dict, str], tuple[Labels, dict[str, Any]]], inputs: set) -> None:
        def look(data: dict, request: gr.Request) -> Iterator[dict]:
            yield {self.told: h("p", "Looking at samples …", cls="quiet"), self.slider: gr.update(visible=False)}
            base, (target, knobs) = self.studio.default_base(), asked(data, owner_of(request))
            for found in self.studio.preview_feature(base, target, deltas=self.studio.active(base), knobs=knobs):
                if isinstance(found, str):
                    yield {self.told: h("p", f"{found[:1].upper()}{found[1:]} …", cls="quiet")}
            shown = {self.slider: gr.update(visible=True, value=0), self.strip: self.slid(found.token, 0.0)}
            yield {self.told: drawn(found), self.token: found.token, **shown}

        def slide(token: str, amount: float) -> dict:
            return {self.strip: self.slid(token, amount)}

        look = said(self.told, self.strip)(look)
        bind(self.button.click, look, inputs, [self.told, self.slider, self.strip, self.token])
        bind(
            self.slider.input,
            said(self.strip)(slide),
            [self.token, self.slider],
            self.strip,
            trigger_mode="always_last",
        )

    def slid(self, token: str, amount: float) -> Node:
        """Six samples, three with the feature first."""
        rows = self.studio.slide(token, [float(amount)])
        faces = [
            h(
                "figure",
                h("img", src=pictures.data_uri(row[0]), alt=""),
                h("figcaption", "with" if k < 3 else "without"),
            )
            for k, row in enumerate(rows)
        ]
        return h("div", *faces, cls=f"faces big{' pixel' if rows[0][0].shape[0] <= 32 else ''}")


def drawn(found) -> list[Node]:
    """In words, then the histogram, then the warnings."""
    words = (
        f"About {found.share:.0%} of this generator's samples would change. On labels it had not seen, the direction "
        f"tells with from without in {found.auc:.0%} of pairs."
    )
    warned = [h("div", h("p", text), cls="note") for text in found.warnings]
    return [h("h2", "Preview"), h("p", words), *warned, histogram(found)]


def histogram(found) -> Node:
    """Three outlines over one axis, each with its own height, and the two thresholds."""
    low, high = found.edges[0], found.edges[-1]
    place = lambda score: WIDE * (score - low) / (high - low)  # noqa: E731
    shapes = [h("path", d=outline(getattr(found, kind)), cls=kind) for kind, _ in KINDS]
    lines = [
        h("line", x1=f"{place(at):.1f}", x2=f"{place(at):.1f}", y1=0, y2=TALL, cls=name)
        for name, at in (("gate", found.gate), ("land", found.land))
        if low <= at <= high
    ]
    spoken = f"Scores of random and labelled samples; changed from {found.gate:.1f} on, moved to {found.land:.1f}"
    box = f"0 0 {WIDE} {TALL}"
    picture = h("svg", *shapes, *lines, viewBox=box, preserveAspectRatio="none", role="img", aria_label=spoken)
    keys = [h("span", text, cls=f"key {kind}") for kind, text in KINDS]
    marks = [h("span", "changed from here on", cls="key gate"), h("span", "moved to here", cls="key land")]
    return h("figure", picture, h("figcaption", *keys, *marks), cls="histogram")


def outline(counts: list[int]) -> str:
    """A stepped path; its highest bin reaches the top."""
    top, step = max(*counts, 1), WIDE / len(counts)
    heights = [TALL - (TALL - 4) * count / top for count in counts]
    points = [f"L{k * step:.1f} {y:.1f} L{(k + 1) * step:.1f} {y:.1f}" for k, y in enumerate(heights)]
    return f"M0 {TALL} {' '.join(points)} L{WIDE} {TALL} Z"
