"""`erase-identity`: one photo, one person less."""

from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import finished_run, table
from engine.core.errors import UserError

PHOTOS = (".jpg", ".jpeg", ".png", ".webp")


def arguments(parser: Any) -> None:
    parser.add_argument("photo", type=Path, help="JPG, PNG or WebP with the person's face; it is read, never stored")
    parser.add_argument(
        "--others", type=Path, metavar="FOLDER", help="more photos of the same person, for the check only"
    )
    parser.add_argument("--base", help="model (default: the photorealistic one)")
    parser.add_argument("--preset", default="balanced", help="quick, balanced, thorough or as-published")
    parser.add_argument("--face", type=int, default=1, help="which face, the largest first, if there are several")
    parser.add_argument("--words", default="a person", help="what the record calls them")
    parser.add_argument("--keep", action="store_true", help="keep the result and apply it")


def run(args: Any, open_studio: Any) -> Any:
    from engine.core.targets import Photo

    photo = Photo(read(args.photo), args.face - 1, args.words, tuple(read(path) for path in photos_in(args.others)))
    studio = open_studio()
    base = args.base or studio.default_base()
    knobs = preset(studio.method("guide"), args.preset)
    job = studio.forget(base, photo, "guide", knobs, deltas=studio.active(base))
    row = finished_run(studio, job, quiet=args.json)
    kept = studio.keep(job) if args.keep else []
    verdict = row.result["verdict"]
    if args.json:
        return {"run": job, "kept": kept, "verdict": verdict}
    print_verdict(verdict)
    return f"kept as {kept[0]}" if kept else f"not kept yet: 'python app.py runs keep {job}' keeps it"


def preset(method: type, name: str) -> dict[str, Any]:
    """A preset's settings by its name, however it is written."""
    known = {title.lower().replace(" ", "-"): dict(values) for title, values in method.presets.items()}
    if name.lower() not in known:
        raise UserError(f"unknown preset {name!r}; known: {', '.join(known)}")
    return known[name.lower()]


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
    table(("likeness by recogniser B", "mean", "95 % interval"), rows)


verbs["erase-identity"] = Verb("make a generator forget the person in a photo", arguments, run)
