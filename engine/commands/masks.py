"""`masks`: teach a network tasks, let it forget one into a file, give it back. A session is a folder on disk."""

import re
from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import bar, table
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
    from engine.masks.session import Session
    from engine.studio import LOCAL

    studio = open_studio()
    if args.action == "list":
        names = sorted(studio.task_sessions())
        return names if args.json else "\n".join(names) or "no sessions yet: 'python app.py masks run NAME' begins one"
    folder = studio.store.tasks(LOCAL) / _name(args.session)
    if args.action == "run":
        steps = [_parse(text) for text in args.do]
        session = _open_or_begin(args, folder, studio)
        for step in steps:
            _do(session, *step, quiet=args.json)
    else:
        session = Session.open(folder, studio.device)
    return _tell(session, as_json=args.json)


def _open_or_begin(args: Any, folder: Path, studio: Any) -> Any:
    from engine.masks.net import find
    from engine.masks.session import Session

    if (folder / Session.FILE).exists():
        return Session.open(folder, studio.device)
    source = args.source or (studio.store.data if args.split == "people" else None)
    how = {"knobs": typed(find(args.method), args.set), "seed": args.seed, "data": source, "device": studio.device}
    return _follow("preparing", Session.create(folder, args.method, args.split, **how), quiet=args.json)


def _do(session: Any, verb: str, task: int | None, mode: str | None, *, quiet: bool) -> None:
    from engine.masks.receipts import tell

    match verb:
        case "learn":
            number = session.next_task() if task is None else task
            receipt = _follow(f"learning task {number}", session.learn(number), quiet=quiet)
        case "forget":
            receipt = _follow(f"forgetting task {task}", session.forget(task, mode or "mask"), quiet=quiet)
        case _:
            receipt = _follow(f"restoring task {task}", session.restore(task), quiet=quiet)
    if not quiet:
        print(tell(receipt))


def _follow(title: str, task: Any, *, quiet: bool) -> Any:
    """Runs a task with a bar. Ctrl-C stops it and keeps what there is."""
    from engine.core.events import Done, Progress

    answer, outcome = None, None
    with bar(title, quiet=quiet) as update:
        while True:
            try:
                event = task.send(answer)
                if isinstance(event, Progress):
                    update(event.step, event.total, event.note, dict(event.scalars))
                elif isinstance(event, Done):
                    outcome = event.result
            except KeyboardInterrupt:
                answer = True
            except StopIteration:
                return outcome


def _tell(session: Any, *, as_json: bool) -> Any:
    lines, facts = session.overview(), session.facts()
    if as_json:
        matrix = [{"event": row.event, "task": row.task, "scores": dict(row.scores)} for row in session.matrix]
        return {"tasks": lines, "facts": facts, "matrix": matrix, "receipts": session.receipts}
    rows = []
    for line in lines:
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
