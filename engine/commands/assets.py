"""`assets`: the pretrained networks; list, fetch, verify."""

from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import bar, console, table
from engine.core.errors import UserError
from engine.core.events import Done, Progress, Task


def arguments(parser: Any) -> None:
    parser.add_argument(
        "action", nargs="?", default="list", choices=("list", "fetch", "verify"), help="what to do (default list)"
    )
    parser.add_argument("names", nargs="*", help="which ones to fetch (default all)")
    parser.add_argument("--quiet-if-done", action="store_true", help="say nothing when there is nothing to fetch")


def run(args: Any, open_studio: Any) -> Any:
    from engine import assets

    if args.action == "fetch":
        missing = [seen for seen in assets.status() if seen.state != "present"]
        if args.quiet_if_done and not missing:
            return None
        fetched = draw("Fetching networks", assets.fetch(args.names or None), quiet=args.json)
        for name, reason in fetched.skipped.items():
            console().print(f"{name} left out: {reason}")
    found = draw("Checking networks", assets.verify(), quiet=args.json) if args.action == "verify" else assets.status()
    rows = [(s.asset.name, s.state, f"{s.bytes / 1e6:.1f} MB", s.asset.licence, s.asset.used_by) for s in found]
    if any(seen.state == "damaged" for seen in found):
        damaged = ", ".join(seen.asset.name for seen in found if seen.state == "damaged")
        raise UserError(f"damaged: {damaged}; {assets.WAY_OUT}")
    if args.json:
        return [dict(zip(("name", "state", "size", "licence", "used by"), row, strict=True)) for row in rows]
    table(("name", "state", "size", "licence", "used by"), rows)
    return None


def draw(title: str, task: Task, *, quiet: bool) -> Any:
    """Runs a task with a bar and gives its result."""
    outcome = None
    with bar(title, quiet=quiet) as update:
        for event in task:
            if isinstance(event, Progress):
                update(event.step, event.total, event.note)
            elif isinstance(event, Done):
                outcome = event.result
    return outcome


verbs["assets"] = Verb("list, fetch and verify the pretrained networks", arguments, run)
