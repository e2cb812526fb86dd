"""What a script may call over HTTP: each public method of `Endpoints` is an endpoint of its own name, and its docstring
is the documentation. All go through engine.studio in plain values; a photo comes as base64 text, for Gradio would write
a file to disk.

    from gradio_client import Client
    client = Client("http://127.0.0.1:7860")
    client.predict(seeds="0-3", api_name="/sample")

docs/endpoints.md is the same for readers; a test holds the two together.
"""

import inspect
from collections.abc import Callable

import gradio as gr

from engine.studio import Studio
from webui.endpoints.classifiers import Classifiers
from webui.endpoints.erasing import Erasing
from webui.endpoints.models import Models
from webui.endpoints.runs import Runs
from webui.endpoints.spoken import spoken


class Endpoints(Models, Erasing, Runs, Classifiers):
    """Everything that may be called, of one studio."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio

    @classmethod
    def listed(cls) -> dict[str, Callable]:
        """By name, in the order in which one would use them."""
        return {name: fn for room in cls.__bases__ for name, fn in vars(room).items() if is_public(name, fn)}


def is_public(name: str, thing: object) -> bool:
    return inspect.isfunction(thing) and not name.startswith("_")


def takes(fn: Callable) -> dict[str, inspect.Parameter]:
    """What a caller may say: every parameter but the request, which Gradio fills in."""
    parameters = inspect.signature(fn).parameters.items()
    return {name: one for name, one in parameters if name != "self" and one.annotation is not gr.Request}


def called(name: str, fn: Callable) -> str:
    """As one would write the call: sample(seeds="0-3", …)."""
    said = (one.name if one.default is one.empty else f"{one.name}={shown(one.default)}" for one in takes(fn).values())
    return f"{name}({', '.join(said)})"


def shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def words(fn: Callable) -> str:
    """Its docstring on one line."""
    return " ".join((fn.__doc__ or "").split())


def add_endpoints(studio: Studio) -> None:
    """Inside a Blocks context. One that only waits holds no place; the others share Gradio's default limit each."""
    endpoints = Endpoints(studio)
    for name in endpoints.listed():
        handler = getattr(endpoints, name)
        limit = None if inspect.isasyncgenfunction(handler) else "default"
        gr.api(spoken(handler), api_name=name, concurrency_limit=limit, api_visibility="public")
