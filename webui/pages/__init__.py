"""The pages, one file each. Adding a file is adding a page: it registers a Page at its end."""

from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr

from engine.core.registry import Registry, import_siblings
from engine.studio import Studio


@dataclass(frozen=True)
class Page:
    """`build(studio, demo)` is called inside the page's own context; `demo.load` there belongs to that page alone."""

    title: str
    path: str  # "" is the start page
    order: int  # place in the bar
    build: Callable[[Studio, gr.Blocks], None]


pages: Registry[Page] = Registry("page")

import_siblings(__name__, __path__)
