"""Identity: one person to be forgotten. A generator of faces takes photos; any other offers samples of its own."""

import gradio as gr

from engine.studio import Studio
from webui.facepage import FacePage
from webui.pages import Page, pages
from webui.samplepage import SamplePage


def build(studio: Studio, demo: gr.Blocks) -> None:
    page = FacePage(studio) if studio.is_of_faces(studio.default_base()) else SamplePage(studio)
    page.bind(demo)


pages["identity"] = Page("Identity", "identity", 20, build)
