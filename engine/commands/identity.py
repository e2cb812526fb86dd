"""`erase-identity`: a photo each, and these people less."""

from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import finished_run, table
from engine.core.errors import UserError
from engine.core.knobs import preset

PHOTOS = (".jpg", ".jpeg", ".png", ".webp")


def arguments(parser: Any) -> None:
    parser.add_argument("photos", nargs="+", type=Path, help="JPG, PNG or WebP, one of each person; read, never stored")
    parser.add_argument(
        "--others", type=Path, metavar="FOLDER", help="more photos of the one person, for the check only"
    )
    parser.add_argument("--in-turn", action="store_true", help="several people one after another, not jointly")
    parser.add_argument("--base", help="model (default: the photorealistic one)")
    parser.add_argument("--preset", default="balanced", help="quick, balanced, thorough or as-published")
    parser.add_argument("--face", type=int, default=1, help="which face, the largest first, if there are several")
    parser.add_argument("--words", default="", help="what the record calls them; of several people, with commas")
    parser.add_argument("--keep", action="store_true", help="keep the result and apply it")


def run(args: Any, open_studio: Any) -> Any:
    target, studio = people(args), open_studio()
    base = args.base or studio.default_base()
    knobs = preset(studio.method("guide"), args.preset)
    if args.in_turn:
        knobs["order"] = "one after another"
    job = studio.forget(base, target, "guide", knobs, deltas=studio.active(base))
    row = finished_run(studio, job, quiet=args.json)
    kept = studio.keep(job) if args.keep else []
    verdict = row.result["verdict"]
    if args.json:
        return {"run": job, "kept": kept, "verdict": verdict}
    print_verdict(verdict)
    return f"kept as {', '.join(kept)}" if kept else f"not kept yet: 'python app.py runs keep {job}' keeps it"


def people(args: Any) -> Any:
    from engine.core.targets import People, Photo

    if len(args.photos) > 1 and args.others:
        raise UserError("--others holds photos of one person; give it with one photo")
    names = [name.strip() for name in args.words.split(",")] if args.words else []
    if names and len(names) != len(args.photos):
        raise UserError(f"--words has {len(names)} names for {len(args.photos)} photos; give one each, with commas")
    if not names:
        names = ["a person"] if len(args.photos) == 1 else [f"person {n}" for n in range(1, len(args.photos) + 1)]
    others = tuple(read(path) for path in photos_in(args.others))
    each = [Photo(read(path), args.face - 1, name, others) for path, name in zip(args.photos, names, strict=True)]
    return each[0] if len(each) == 1 else People(tuple(each))


def read(path: Path) -> Any:
    from engine.faces.photo import open_photo

    try:
        return open_photo(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); name a photo") from error


def photos_in(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    if not folder.is_dir():
        raise UserError(f"--others {folder}: there is no such folder")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in PHOTOS)


def print_verdict(verdict: dict[str, Any]) -> None:
    """Words first, number second."""
    if "unchecked" in verdict:
        print(f"not checked: {verdict['unchecked']}")
        return
    mean, high, _ = verdict["strangers"]
    words = {
        "person": "this person, before against after",
        "other_photos": "their other photos",
        "everyone": "everyone else",
        "drift": "everyone else's change (LPIPS)",
    }
    rows = [(words[name], f"{v[0]:.3f}", f"{v[1]:.3f} to {v[2]:.3f}") for name in words if (v := verdict.get(name))]
    rows.append(("strangers, for comparison", f"{mean:.3f}", f"three of four below {high:.3f}"))
    if verdict.get("same_person"):
        rows.append(("two photos of one person", "", "{:.2f} to {:.2f}".format(*verdict["same_person"])))
    table(("likeness by recogniser B", "mean", "95 % interval"), rows)
    if several := verdict.get("people"):
        cells = [[f"{value:.2f}" for value in row] for row in several["matrix"]]
        table(("after", *several["names"]), [(f"erasure {n}", *row) for n, row in enumerate(cells, start=1)])
        (was, _), (now, most) = several["alike"]["before"], several["alike"]["after"]
        print(f"two of them are alike by {was:.2f} before and {now:.2f} after, at most {most:.2f}")


verbs["erase-identity"] = Verb("make a generator forget the person in a photo", arguments, run)
