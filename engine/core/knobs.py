"""A method's settings are the fields of its dataclass. The form, the command line and the card are drawn from them."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, get_type_hints

from engine.core.errors import UserError


def knob(
    default: Any,
    help: str,
    *,
    min: float | None = None,
    max: float | None = None,
    choices: tuple = (),
    advanced: bool = False,
) -> Any:
    """A dataclass field that knows its range and says what it does. `advanced` knobs are folded away on the page."""
    meta = {"help": help, "min": min, "max": max, "choices": choices, "advanced": advanced}
    return dataclasses.field(default=default, metadata=meta)


def knobs(cls: type) -> list[dataclasses.Field]:
    """The settable fields in order, with their resolved types."""
    hints = get_type_hints(cls)
    fields = [field for field in dataclasses.fields(cls) if "help" in field.metadata]
    for field in fields:
        field.type = hints[field.name]
    return fields


def check(instance: Any) -> None:
    """Refuses a value of the wrong type, outside its range or not among its choices. Call it in __post_init__."""
    for field in knobs(type(instance)):
        value, meta = getattr(instance, field.name), field.metadata
        _check_type(field, value)
        if meta["choices"] and value not in meta["choices"]:
            known = ", ".join(map(str, meta["choices"]))
            raise UserError(f"{field.name}={value!r}: must be one of {known}")
        low, high = meta["min"], meta["max"]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
            raise UserError(f"{field.name}={value}: must lie in [{_side(low)}, {_side(high)}]")


def _check_type(field: dataclasses.Field, value: Any) -> None:
    kind = field.type
    if kind not in (int, float, bool, str):
        return
    allowed = (int, float) if kind is float else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise UserError(f"{field.name}={value!r}: must be {_words[kind]}")


def build(cls: type, values: Mapping[str, Any]) -> Any:
    """Makes the method from a dict; a name it does not know is refused, not dropped."""
    known = [field.name for field in knobs(cls)]
    for name in values:
        if name not in known:
            raise UserError(f"{cls.__name__} has no setting {name!r}; known: {', '.join(known)}")
    return cls(**values)


def values(instance: Any) -> dict[str, Any]:
    """The settings of an instance as plain values, for the card."""
    return {field.name: getattr(instance, field.name) for field in knobs(type(instance))}


def preset(cls: type, name: str) -> dict[str, Any]:
    """A preset's settings by its name, however it is written."""
    known = {title.lower().replace(" ", "-"): dict(settings) for title, settings in cls.presets.items()}
    if name.lower() not in known:
        raise UserError(f"unknown preset {name!r}; known: {', '.join(known)}")
    return known[name.lower()]


def _side(bound: float | None) -> str:
    return "any" if bound is None else f"{bound:g}"


_words = {int: "a whole number", float: "a number", bool: "yes or no", str: "text"}
