"""A method's knobs as a form: drawn from its fields, read back as one dict.

    form = Form(studio.method("guide"), {"Quick": {"steps": 60}, "Thorough": {"steps": 400}}, start="Quick")
    panel.starts(button.click, begin, {base, *form.inputs})
    def begin(data, owner): return studio.forget(data[base], target, "guide", form.read(data), owner=owner)

A preset changes only what the user has not touched. Advanced knobs are folded away; `hide` leaves some out.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import gradio as gr

from engine.core.errors import UserError
from engine.core.knobs import knobs
from webui.events import bind


class Form:
    """Components for every knob of a method, made in the current context."""

    def __init__(
        self,
        method: type,
        presets: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        start: str | None = None,
        hide: Collection[str] = (),
    ) -> None:
        self.presets = {name: dict(values) for name, values in (presets or {}).items()}
        first = self.presets.get(start or "", {})
        self.fields = {field.name: field for field in knobs(method) if field.name not in hide}
        self.parts: dict[str, Any] = {}
        if self.presets:
            self.preset = gr.Radio(
                list(self.presets), label="Preset", value=start, info="A start; change what you like."
            )
        plain = [field for field in self.fields.values() if not field.metadata["advanced"]]
        folded = [field for field in self.fields.values() if field.metadata["advanced"]]
        for field in plain:
            self.parts[field.name] = component(field, first.get(field.name, field.default))
        if folded:
            with gr.Accordion("Advanced", open=False):
                for field in folded:
                    self.parts[field.name] = component(field, first.get(field.name, field.default))
        if self.presets:
            self._bind_presets()

    @property
    def inputs(self) -> set:
        return set(self.parts.values())

    def read(self, data: Mapping[Any, Any]) -> dict[str, Any]:
        """The knobs as the user set them; the method checks them."""
        return {name: as_typed(self.fields[name], data[part]) for name, part in self.parts.items()}

    def _bind_presets(self) -> None:
        touched = gr.State([])

        def note(name: str) -> None:
            def remember(names: list[str]) -> list[str]:
                return sorted({*names, name})

            part = self.parts[name]
            bind(part.input, remember, touched, touched, trigger_mode="multiple")

        for name in self.parts:
            note(name)

        def apply(preset: str | None, names: list[str]) -> dict:
            chosen = self.presets.get(preset or "", {})
            return {part: self._value(name, chosen) for name, part in self.parts.items() if name not in names}

        bind(self.preset.input, apply, [self.preset, touched], list(self.parts.values()))

    def _value(self, name: str, chosen: Mapping[str, Any]) -> Any:
        return gr.update(value=chosen.get(name, self.fields[name].default))


def component(field: dataclasses.Field, value: Any) -> Any:
    """What fits a knob: a tick, a list, a slider where the range is short, else a number."""
    meta, words = field.metadata, {"label": label(field.name), "value": value}
    info = sentence(meta["help"])
    if field.type is bool:
        return gr.Checkbox(**words, info=info)
    if meta["choices"]:
        return gr.Dropdown(list(meta["choices"]), **words, info=info)
    if field.type not in (int, float):
        return gr.Textbox(**words, info=info)
    low, high = meta["min"], meta["max"]
    if is_short(field):
        step = 1 if field.type is int else float(f"{(high - low) / 200:.1g}")
        return gr.Slider(low, high, step=step, **words, info=info)
    return gr.Number(**words, info=info, precision=0 if field.type is int else None, minimum=low, maximum=high)


def is_short(field: dataclasses.Field) -> bool:
    """A slider can hit every sensible value of it."""
    low, high = field.metadata["min"], field.metadata["max"]
    if low is None or high is None:
        return False
    return high - low <= 200 if field.type is int else low >= 0 and (low == 0 or high / low <= 200)


def as_typed(field: dataclasses.Field, value: Any) -> Any:
    """A slider gives 3 as 3.0 and a number field may be empty; the rest is the method's own check."""
    if value is None:
        raise UserError(f"“{label(field.name)}” is empty; the usual value is {field.default}")
    if field.type is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return float(value) if field.type is float and isinstance(value, int) and not isinstance(value, bool) else value


def label(name: str) -> str:
    return {"lr": "Learning rate", "psi": "Truncation (psi)"}.get(name, name.replace("_", " ").capitalize())


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text and not text.endswith(".") else text
