"""What goes wrong in an endpoint reaches the caller as a sentence, and never with the server's insides."""

import functools
import inspect
import json
from collections.abc import Callable
from typing import Any, get_args, get_origin

import gradio as gr

from engine.core.errors import UserError
from webui.events import SORRY, log

WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def spoken(fn: Callable) -> Callable:
    signature = inspect.signature(fn)

    def check(args: tuple, kwargs: dict) -> None:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            check_kind(name, value, signature.parameters[name].annotation)

    if inspect.isasyncgenfunction(fn):

        @functools.wraps(fn)
        async def handler(*args: Any, **kwargs: Any) -> Any:
            try:
                check(args, kwargs)
                async for value in fn(*args, **kwargs):
                    yield plain(value)
            except Exception as error:
                raise sentence(error) from error

    else:

        @functools.wraps(fn)
        def handler(*args: Any, **kwargs: Any) -> Any:
            try:
                check(args, kwargs)
                return plain(fn(*args, **kwargs))
            except Exception as error:
                raise sentence(error) from error

    return handler


def plain(value: Any) -> Any:
    """As JSON holds it: Gradio trips over keys that are numbers."""
    return json.loads(json.dumps(value))


def check_kind(name: str, value: Any, hint: Any) -> None:
    """JSON may bring anything; a value of the wrong kind is named before the engine trips over it."""
    allowed = [get_origin(kind) or kind for kind in (get_args(hint) if type(None) in get_args(hint) else (hint,))]
    if float in allowed:
        allowed.append(int)
    is_wrong_flag = isinstance(value, bool) and bool not in allowed
    if is_wrong_flag or not isinstance(value, tuple(allowed)):
        raise UserError(f"{name}: must be {WORDS[allowed[0]]}")
    if allowed[0] is list and value is not None and not all(isinstance(item, str) for item in value):
        raise UserError(f"{name}: must be a list of texts")


def sentence(error: Exception) -> gr.Error:
    if not isinstance(error, UserError):
        log.error("an endpoint failed", exc_info=error)
    text = str(error) if isinstance(error, UserError) else SORRY
    return gr.Error(text[:1].upper() + text[1:], print_exception=False)
