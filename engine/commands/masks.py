"""`masks`: teach a network tasks, let it forget one into a file, give it back. Every step is a run, as on the page."""

import re
from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import finished_run, table
from engine.commands.settings import typed
from engine.core.errors import UserError

STEP = re.compile(r"(learn)(?: (\d+))?|(forget) (\d+)(?: (mask|exclusive|cascade))?|(restore) (\d+)")
SCRIPT = ("learn", "learn", "learn", "forget 1", "restore 1")


def arguments(parser: Any) -> None:
    parser.add_argument("action", choices=("run", "show", "list"), help="do steps, look at a session, or list them")
    parser.add_argument("session", nargs="?", default="", help="its name; a new one is begun by 'run'")
    parser.add_argument("--method", default="supsup", help="of a new session: apd, ctr, hat, ksm, packnet, …")
    parser.add_argument("--split", default="digits", help="of a new session: digits, permuted-digits, people, cifar10")
    parser.add_argument("--source", type=Path, help="folder or file of the split's data, where it needs one")
    parser.add_argument("--seed", type=int, default=0, help="of a new session")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="a setting of the method")
    parser.add_argument(
        "--do",
        nargs="+",
        default=SCRIPT,
        metavar="STEP",
        help="'learn', 'learn 3', 'forget 1', 'forget 1 exclusive' or 'cascade', 'restore 1'",
    )


def run(args: Any, open_studio: Any) -> Any:
    studio = open_studio()
    if args.action == "list":
        names = sorted(studio.task_sessions())
        return names if args.json else "\n".join(names) or "no sessions yet: 'python app.py masks run NAME' begins one"
    name = _name(args.session)
    if args.action == "run":
        steps = [_parse(text) for text in args.do]
        if name not in studio.task_sessions():
            _begin(name, args, studio)
        for step in steps:
            _do(studio, name, *step, quiet=args.json)
    return _tell(studio.task_session(name), as_json=args.json)


def _begin(name: str, args: Any, studio: Any) -> None:
    from engine.masks.net import find

    how = {"seed": args.seed, "name": name, "source": args.source}
    job = studio.begin_tasks(args.method, args.split, typed(find(args.method), args.set), **how)
    finished_run(studio, job, quiet=args.json)


def _do(studio: Any, name: str, verb: str, task: int | None, mode: str | None, *, quiet: bool) -> None:
    match verb:
        case "learn":
            job = studio.learn_task(name, task)
        case "forget":
            job = studio.forget_task(name, task, mode or "mask")
        case _:
            job = studio.restore_task(name, task)
    row = finished_run(studio, job, quiet=quiet)
    if not quiet:
        print(row.result["words"])


def _tell(session: dict[str, Any], *, as_json: bool) -> Any:
    if as_json:
        return {name: session[name] for name in ("tasks", "facts", "matrix", "receipts")}
    rows = []
    for line in session["tasks"]:
        score = f"{line['score']:.1%}" if "score" in line else ""
        size = f"{sum(v for k, v in line['bits'].items() if k != 'coded') / 8:,.0f}" if "bits" in line else ""
        readers = ", ".join(f"{task} ({why})" for task, why in line.get("dependents", {}).items())
        rows.append((line["task"], line["name"], line["state"], score, size, readers or line.get("vault", "")))
    table(("task", "classes", "state", "test", "bytes", "read by, or kept in"), rows)
    return None


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", text):
        raise UserError(f"session {text!r}: give it a name of small letters, digits, dots, dashes")
    return text


def _parse(text: str) -> tuple[str, int | None, str | None]:
    found = STEP.fullmatch(text.strip())
    if not found:
        raise UserError(
            f"step {text!r}: must be 'learn', 'learn 3', 'forget 1 [mask|exclusive|cascade]' or 'restore 1'"
        )
    verb = found[1] or found[3] or found[6]
    task = found[2] or found[4] or found[7]
    return verb, None if task is None else int(task), found[5]


verbs["masks"] = Verb("learn, forget and restore tasks of a classifier", arguments, run)
