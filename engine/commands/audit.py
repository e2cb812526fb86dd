"""`audit`: did it really forget? Attacks on an erasure, and a report."""

from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.identity import read
from engine.commands.screen import finished_run, table
from engine.core.errors import UserError
from engine.core.knobs import preset
from engine.files import atomic

KNOBS = ("tries", "steps", "retraining", "samples", "seed")


def arguments(parser: Any) -> None:
    parser.add_argument("subject", nargs="?", help="a run or a kept erasure (without it, those here are listed)")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--photo", type=Path, help="the erased person's photo, which was not stored; read, never written")
    who.add_argument("--person", type=int, metavar="SEED", help="the seed of the erased generated person")
    parser.add_argument("--face", type=int, default=1, help="which face of the photo, the largest first")
    parser.add_argument("--preset", default="balanced", help="budget: quick, balanced or thorough")
    for name in KNOBS:
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"budget: {name}, in place of the preset's")
    parser.add_argument(
        "--any-judge", action="store_true", help="a network that labelled may judge; the report says so"
    )
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write the report as one HTML file")


def run(args: Any, open_studio: Any) -> Any:
    studio = open_studio()
    if not args.subject:
        return listed(studio, as_json=args.json)
    if args.report and args.report.suffix != ".html":
        raise UserError(f"--report {args.report}: name the file .html; --json prints the same as JSON")
    chosen = {name: getattr(args, name) for name in KNOBS if getattr(args, name) is not None}
    knobs = preset(studio.audit_budget(), args.preset) | chosen | {"any_judge": args.any_judge}
    job = studio.audit(args.subject, knobs, target=target(args), owner=studio.audit_owner(args.subject))
    owner = studio.run(job, None).owner
    row = finished_run(studio, job, owner=owner, quiet=args.json)
    report = studio.audit_report(job, owner=owner)
    if args.report:
        with atomic(args.report) as file:
            file.write(studio.audit_html(job, owner=owner).encode())
    if args.json:
        return {"run": row.id, **report}
    print_report(report)
    return "\n".join([*report["verdict"], *([f"report: {args.report}"] if args.report else [])])


def target(args: Any) -> Any:
    """Whom to look for, where the call says it."""
    from engine.core.targets import Photo, Seeds

    if args.photo:
        return Photo(read(args.photo), args.face - 1)
    return None if args.person is None else Seeds((args.person,))


def listed(studio: Any, *, as_json: bool) -> Any:
    found = studio.audit_subjects(owner=None)
    if as_json:
        return [vars(subject) for subject in found]
    rows = [(s.name, s.title, s.base, "kept" if s.is_kept else "not kept", s.wants) for s in found]
    table(("erasure", "what", "base", "state", "needs"), rows)
    return None


def print_report(report: dict[str, Any]) -> None:
    table(("attack", "what came of it"), [(finding["title"], finding["words"]) for finding in report["findings"]])
    facts = [("should have stayed", fact) for fact in report["kept"]]
    facts += [("integrity", fact) for fact in report["integrity"]]
    marks = {True: "good", False: "not good", None: ""}
    rows = [(kind, fact["what"], fact["words"], marks[fact["is_good"]]) for kind, fact in facts]
    table(("", "what", "", ""), rows)


verbs["audit"] = Verb("attack an erasure and say how often what was erased came back", arguments, run)
