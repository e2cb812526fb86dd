"""How handlers are bound: never a public endpoint by accident, and what goes wrong is said beside its cause."""

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import gradio as gr

from engine.core.errors import UserError
from webui.view import Node, h

log = logging.getLogger("lethe")
SORRY = "Something went wrong that should not have. The server's terminal has the details; please try again."


def bind(event: Callable, fn: Callable, inputs: Any = None, outputs: Any = None, **options: Any) -> Any:
    """Binds a handler: private, without Gradio's own spinner. `event` may also be the `.then` of an earlier one."""
    return event(whole(fn), inputs, outputs, **{"api_visibility": "private", "show_progress": "hidden"} | options)


def whole(fn: Callable) -> Callable:
    """A handler that yields several times says everything again each time. Gradio sends only the differences, and its
    page applies them to the very object it has not drawn yet: what a later message leaves out would never be seen."""
    if inspect.isasyncgenfunction(fn):

        async def handler(*args: Any) -> Any:
            said_so_far: dict = {}
            async for update in fn(*args):
                yield (said_so_far := {**said_so_far, **update})

    elif inspect.isgeneratorfunction(fn):

        def handler(*args: Any) -> Any:
            said_so_far: dict = {}
            for update in fn(*args):
                yield (said_so_far := {**said_so_far, **update})

    else:
        return fn
    return functools.wraps(fn)(handler)


def error_box(text: str) -> Node:
    """A sentence that stays until the cause is gone. It begins as a sentence does."""
    return h("div", h("strong", "Not done. "), text[:1].upper() + text[1:], cls="trouble", role="alert")


def said(
    box: gr.HTML, *emptied: gr.HTML, undo: Callable[[], dict] = dict, clears: bool = True
) -> Callable[[Callable], Callable]:
    """For handlers that return or yield {component: update}: what goes wrong is shown in `box`, empties `emptied` (such
    as "Drawing …") and sets what `undo` gives; success empties `box` if it `clears`: one that only follows another
    must not wipe what that one had to say."""
    success = {box: None} if clears else {}

    def refused(error: Exception) -> dict:
        if not isinstance(error, UserError):
            log.error("a handler failed", exc_info=error)
        text = str(error) if isinstance(error, UserError) else SORRY
        return {**dict.fromkeys(emptied), **undo(), box: error_box(text)}

    def around(fn: Callable) -> Callable:
        if inspect.isgeneratorfunction(fn):

            def handler(*args: Any, **kwargs: Any) -> Any:
                try:
                    for update in fn(*args, **kwargs):
                        yield {**success, **update}
                except Exception as error:
                    yield refused(error)

        else:

            def handler(*args: Any, **kwargs: Any) -> dict:
                try:
                    return {**success, **(fn(*args, **kwargs) or {})}
                except Exception as error:
                    return refused(error)

        return functools.wraps(fn)(handler)

    return around
