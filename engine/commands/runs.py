"""`runs`: the record of what was done; show, resume, keep, discard, delete, as a zip out and in."""

from datetime import datetime
from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import follow_run, table


def arguments(parser: Any) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        help="what to do with the run (default list)",
        choices=("list", "show", "resume", "keep", "discard", "delete", "export", "import"),
    )
    parser.add_argument("run", nargs="?", help="id of the run, or the zip to import")
    parser.add_argument("out", nargs="?", type=Path, help="zip to write (export; default run-ID.zip)")


def run(args: Any, open_studio: Any) -> Any:
    studio = open_studio()
    if args.action == "list":
        rows = studio.runs(None)
        if args.json:
            return [plain(row) for row in rows]
        table(("run", "when", "what", "state"), [(r.id, when(r.created), r.title, r.state) for r in rows])
        return None
    if not args.run:
        from engine.core.errors import UserError

        raise UserError(f"runs {args.action}: name the run; 'python app.py runs' lists them")
    if args.action == "import":
        job = studio.import_run(Path(args.run))
        return {"run": job} if args.json else f"run {job} is here; its erasure is kept and not applied"
    owner = studio.run(args.run, None).owner
    match args.action:
        case "resume":
            studio.resume(args.run, owner=owner)
            follow_run(studio, args.run, owner=owner, quiet=args.json)
        case "keep":
            studio.keep(args.run, owner=owner)
        case "discard":
            studio.discard(args.run, owner=owner)
        case "export":
            path = studio.export_run(args.run, args.out or Path(f"run-{args.run}.zip"), owner=owner)
            return {"file": str(path)} if args.json else str(path)
        case "delete":
            studio.delete_run(args.run, owner=owner)
            return {"deleted": args.run} if args.json else f"run {args.run} and its files are gone"
    row = plain(studio.run(args.run, owner))
    return row if args.json else "\n".join(f"{name}: {value}" for name, value in row.items())


def plain(row: Any) -> dict[str, Any]:
    """A run as JSON can hold it."""
    return {
        "run": row.id,
        "when": when(row.created),
        "what": row.title,
        "state": str(row.state),
        "settings": row.params,
        "result": row.result,
        "error": row.error,
    }


def when(stamp: float) -> str:
    return datetime.fromtimestamp(stamp).strftime("%Y-%m-%d %H:%M")


verbs["runs"] = Verb("list, resume, keep, delete, export or import runs", arguments, run)
