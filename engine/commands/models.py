"""`models`, `import`, `export`: which models there are, taking one in, giving one out."""

from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.sample import pick_deltas
from engine.commands.screen import console, table
from engine.core.errors import UserError

COLUMNS = ("name", "title", "state", "size", "fingerprint", "licence", "from", "erased")


def list_arguments(parser: Any) -> None:
    parser.add_argument("--delete", metavar="NAME", help="delete an imported model and what was erased from it")


def list_models(args: Any, open_studio: Any) -> Any:
    studio = open_studio()
    if args.delete:
        studio.delete_base(args.delete)
        return {"deleted": args.delete} if args.json else f"{args.delete} and its erasures are gone"
    rows = [dict(zip(COLUMNS, described(studio, info), strict=True)) for info in studio.bases()]
    if args.json:
        return rows
    shown = [name for name in COLUMNS if name not in ("title", "licence")]
    table(shown, [tuple(row[name] for name in shown) for row in rows])
    return "\n".join(f"{row['name']}: {row['title']}. Licence: {row['licence']}" for row in rows)


def described(studio: Any, info: Any) -> tuple[str, ...]:
    """One row of COLUMNS. A model that cannot be opened says why and does not hide the others."""
    size, mark, state = "", "", "ready"
    try:
        if info.missing:
            state = "missing " + ", ".join(info.missing)
        else:
            facts = studio.facts(info.name)
            size, mark = f"{max(facts['sizes'])} px, {facts['bytes'] / 1e6:.1f} MB", facts["fingerprint"]
    except UserError as error:
        state = str(error)
    return info.name, info.title, state, size, mark, info.licence, info.parent, erased(studio, info)


def erased(studio: Any, info: Any) -> str:
    """What is applied to a base now, in the words of the cards."""
    cards = studio.deltas(info.name)
    return ", ".join(cards[name].request for name in studio.active(info.name) if name in cards)


def import_arguments(parser: Any) -> None:
    parser.add_argument("file", type=Path, help=".pkl of StyleGAN2, StyleGAN3 or EG3D, .safetensors, or a state dict")
    parser.add_argument("--name", help="name here (default: the file's, in small letters)")
    parser.add_argument("--licence", default="not stated", help="what its terms allow, to be shown with it")


def import_model(args: Any, open_studio: Any) -> Any:
    name = args.name or "".join(c if c.isalnum() or c in "._-" else "-" for c in args.file.stem.lower())
    with console().status(f"Reading {args.file.name} without running anything in it"):
        info = open_studio().import_base(args.file, name, licence=args.licence)
    return vars(info) if args.json else f"{info.name}: {info.title}"


def export_arguments(parser: Any) -> None:
    parser.add_argument("base", help="model to export")
    parser.add_argument("out", type=Path, help="file to write: .safetensors, or .pkl for one that came from a .pkl")
    parser.add_argument("--deltas", default="active", help="erasures to bake in: active, none, or ids with commas")


def export_model(args: Any, open_studio: Any) -> Any:
    studio = open_studio()
    deltas = pick_deltas(studio, args.base, args.deltas)
    path = studio.export(args.base, deltas, args.out, as_pickle=args.out.suffix == ".pkl")
    console().print("The base still knows what the erasures hide: keep the base and the deltas to yourself.")
    return {"file": str(path), "deltas": deltas} if args.json else str(path)


verbs["models"] = Verb("list the models, or delete an imported one", list_arguments, list_models)
verbs["import"] = Verb("take in a foreign checkpoint without running its code", import_arguments, import_model)
verbs["export"] = Verb("write a model with its erasures baked in", export_arguments, export_model)
