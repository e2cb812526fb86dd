"""`label-export` and `erase-feature`: labels as a file, and a feature less."""

from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import finished_run, table
from engine.commands.settings import typed
from engine.core.errors import UserError
from engine.core.knobs import preset
from engine.files import atomic

LISTED = ("feature", "with", "without", "owner")


def export_arguments(parser: Any) -> None:
    parser.add_argument("feature", nargs="?", help="name of the feature (without it, those with labels are listed)")
    parser.add_argument("--base", help="model (default: the photorealistic one)")
    parser.add_argument("--owner", help="whose labels, where several people have labelled it")
    parser.add_argument("--psi", type=float, default=1.0, help="truncation the samples were shown at (default 1)")
    parser.add_argument("--out", type=Path, help="file to write, .json or .csv (default FEATURE.json)")


def export(args: Any, open_studio: Any) -> Any:
    studio = open_studio()
    base = args.base or studio.default_base()
    if not args.feature:
        rows = [
            (name, counts.having, counts.lacking, owner)
            for owner in ([args.owner] if args.owner else studio.labels.owners(base))
            for name, counts in studio.labels.features(owner, base).items()
        ]
        if args.json:
            return [dict(zip(LISTED, row, strict=True)) for row in rows]
        table(LISTED, rows)
        return None
    path = args.out or Path(f"{args.feature.replace(' ', '-').replace('/', '-')}.json")
    kind = path.suffix.removeprefix(".") or "json"
    owner = args.owner or only_owner(studio, base, args.feature)
    text = studio.labels_text(base, args.feature, kind, psi=args.psi, owner=owner)
    with atomic(path) as file:
        file.write(text.encode())
    return {"file": str(path)} if args.json else str(path)


def only_owner(studio: Any, base: str, feature: str) -> str:
    """Whose labels these are: a visitor of the page is known by an id that they never see."""
    owners = studio.labels.owners(base, feature)
    if not owners:
        raise UserError(f"nobody has labelled “{feature}” on {base}; label-export without a name lists what there is")
    if len(owners) > 1:
        raise UserError(f"“{feature}” was labelled by {', '.join(owners)}; say whose labels you want with --owner")
    return owners[0]


def erase_arguments(parser: Any) -> None:
    parser.add_argument("labels", type=Path, help="file of labels, .json or .csv, as label-export writes it")
    parser.add_argument(
        "--also", type=Path, action="append", default=[], metavar="FILE", help="labels of a further feature to erase"
    )
    parser.add_argument(
        "--protect", type=Path, action="append", default=[], metavar="FILE", help="labels of a feature to keep as it is"
    )
    parser.add_argument("--preset", default="balanced", help="quick, balanced, thorough or as-published")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="a setting, as checked=2000")
    parser.add_argument("--preview", action="store_true", help="only say what erasing would do")
    parser.add_argument("--keep", action="store_true", help="keep the result and apply it")


def erase(args: Any, open_studio: Any) -> Any:
    studio = open_studio()
    also, protect = ([written(path) for path in paths] for paths in (args.also, args.protect))
    base, target = studio.labelled_target(written(args.labels), also=also, protect=protect)
    method = studio.method("feature")
    knobs = preset(method, args.preset) | typed(method, args.set)
    if args.preview:
        return preview(studio, base, target, knobs, as_json=args.json)
    caveats = studio.feature_caveats([other.name for other in target.keep], knobs)
    job = studio.forget(base, target, "feature", knobs, deltas=studio.active(base))
    row = finished_run(studio, job, quiet=args.json)
    kept = studio.keep(job) if args.keep else []
    if args.json:
        return {"run": job, "kept": kept, "verdict": row.result["verdict"], "warnings": caveats}
    ending = f"kept as {kept[0]}" if kept else f"not kept yet: 'python app.py runs keep {job}' keeps it"
    return "\n".join([*caveats, *row.result["verdict"].get("words", []), ending])


def written(path: Path) -> str:
    try:
        return path.read_text("utf8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); name a file that label-export wrote") from error


def preview(studio: Any, base: str, target: Any, knobs: dict[str, Any], *, as_json: bool) -> Any:
    from dataclasses import asdict

    *_, seen = studio.preview_feature(base, target, deltas=studio.active(base), knobs=knobs)
    if as_json:
        return asdict(seen)
    lines = [
        f"“{seen.name}”: a held-out sample with it outscores one without in {100 * seen.auc:.1f} % of cases",
        f"{100 * seen.share:.1f} % of random samples would change",
        *seen.warnings,
    ]
    return "\n".join(lines)


verbs["label-export"] = Verb("write the labels of a feature to a file", export_arguments, export)
verbs["erase-feature"] = Verb("make a generator forget a labelled feature", erase_arguments, erase)
