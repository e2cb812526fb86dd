"""Settings of a method as words of a call: `--set steps=100`."""

from typing import Any

from engine.core.errors import UserError


def typed(method: type, texts: list[str]) -> dict[str, Any]:
    """`steps=100` and the like, read as the setting's own type."""
    from engine.core.knobs import knobs

    kinds = {field.name: field.type for field in knobs(method)}
    chosen: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in kinds:
            raise UserError(f"{method.title} has no setting {name!r}; known: {', '.join(kinds)}")
        try:
            chosen[name] = value.lower() in ("yes", "true", "1") if kinds[name] is bool else kinds[name](value)
        except ValueError as error:
            raise UserError(f"{text}: {value!r} is not a number") from error
    return chosen
