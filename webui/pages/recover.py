"""Recover: what was forgotten and can come back, one tab for each way."""

import gradio as gr

from engine.studio import Studio
from webui.pages import Page, pages
from webui.recover import deposit, erasures, tasks
from webui.view import View, h

TABS = {"Erasures": erasures.build, "Deposit & withdraw": deposit.build, "Tasks & masks": tasks.build}


def build(studio: Studio, demo: gr.Blocks) -> None:
    View(
        [
            h("p", "Recover", cls="eyebrow"),
            h("h1", "Give it back"),
            h(
                "p",
                "A kept erasure is applied when a model is used. Take it back and the model is as before.",
                cls="lead",
            ),
        ]
    )
    with gr.Tabs(overflow_behavior="wrap"):
        for title, fill in TABS.items():
            with gr.Tab(title, id=title):
                fill(studio, demo)


pages["recover"] = Page("Recover", "recover", 30, build)
