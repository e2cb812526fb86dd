"""`lirf`: classes leave a classifier as a file, and come back with it."""

import shutil
from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import console, finished_run, table
from engine.commands.settings import typed
from engine.core.errors import UserError


def arguments(parser: Any) -> None:
    parser.add_argument("action", choices=("deposit", "withdraw", "report"), help="what to do")
    parser.add_argument("run", nargs="?", default="", help="withdraw, report: the run that made the deposit")
    parser.add_argument("files", nargs="*", type=Path, help="withdraw: deposit files to hand back")
    parser.add_argument("--dataset", default="people", help="people, digits, cifar10, … (default people)")
    parser.add_argument("--source", default="", help="folder or npz of the data set, where it needs one")
    parser.add_argument("--classes", default="", help="deposit: names of the classes to take out, with commas")
    parser.add_argument("--network", default="", help="deposit: 'ready', or the run that made it (default: the newest)")
    parser.add_argument("--train", action="store_true", help="deposit: train a new network first")
    parser.add_argument("--architecture", default="", help="of that network: tiny, resnet20 or resnet18")
    parser.add_argument("--preset", default="ours", help="deposit: ours, as-described or as-coded")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", help="deposit: a setting of LIRF")
    parser.add_argument("--out", type=Path, help="deposit: file to write (default CLASSES.deposit.safetensors)")
    parser.add_argument("--map", choices=("pca", "t-sne"), help="report: measure anew with this map of the features")


def run(args: Any, open_studio: Any) -> Any:
    studio = open_studio()
    match args.action:
        case "deposit":
            return deposit(args, studio)
        case "withdraw":
            if not args.run:
                raise UserError(
                    "withdraw: name the run that made the deposit, then the files; 'lirf report' lists runs"
                )
            return told(measured(studio.withdraw(args.run, args.files, owner=owner(studio, args)), args), args)
        case _:
            return report(args, studio)


def deposit(args: Any, studio: Any) -> Any:
    data, names = args.dataset, [name.strip() for name in args.classes.split(",") if name.strip()]
    if not names:
        known = ", ".join(studio.class_pictures(data, args.source))
        raise UserError(f"--classes: name at least one class to take out; {data} has {known}")
    presets = {name.replace(" ", "-"): chosen for name, chosen in studio.deposit_presets().items()}
    if args.preset not in presets:
        raise UserError(f"--preset {args.preset}: must be one of {', '.join(presets)}")
    knobs = presets[args.preset] | typed(studio.method("lirf"), args.set)
    network = args.network or chosen_network(args, studio)
    job = studio.deposit(data, network, names, knobs, source=args.source)
    row = finished_run(studio, job, quiet=args.json)
    path = args.out or Path(f"{'-'.join(names)}.deposit.safetensors")
    try:
        shutil.copyfile(studio.deposit_file(job), path)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}); run {job} has the deposit all the same"
        ) from error
    if args.json:
        return {"run": job, "file": str(path), **row.result}
    show(studio.deposit_report(job))
    part = 100 * row.result["sizes"]["bytes"] / row.result["sizes"]["network"]
    return f"{path}: {part:.1f} % of the network. 'python app.py lirf withdraw {job} {path}' brings them back."


def chosen_network(args: Any, studio: Any) -> str:
    """The ready one, else the newest original that was trained here, else one that is trained now."""
    originals = [info.id for info in studio.networks(args.dataset) if not info.gone]
    if originals and not args.train:
        return originals[0]
    job = studio.train_network(args.dataset, source=args.source, architecture=args.architecture)
    if not args.json:
        console().print(f"Training a network for {args.dataset} first.")
    finished_run(studio, job, quiet=args.json)
    return job


def report(args: Any, studio: Any) -> Any:
    if args.run:
        whose = owner(studio, args)
        again = args.map and studio.measure_deposit(args.run, args.map, owner=whose)
        return told(measured(again, args) if again else studio.deposit_report(args.run, owner=whose), args)
    rows = studio.deposits(owner=None)
    listed = [{"run": row.id, "data": row.params["base"], "classes": row.params["classes"]} for row in rows]
    if args.json:
        return listed
    table(("run", "data set", "deposited"), [(one["run"], one["data"], ", ".join(one["classes"])) for one in listed])
    return None


def owner(studio: Any, args: Any) -> str:
    """Who made the run: whoever types here may look at all of this machine's runs."""
    return studio.run(args.run, None).owner


def measured(steps: Any, args: Any) -> dict[str, Any]:
    """Goes through what a measurement says on its way; the last thing it says is the report."""
    last: Any = {}
    for last in steps:
        if isinstance(last, str) and not args.json:
            console().print(last)
    return last


def told(found: dict[str, Any], args: Any) -> Any:
    if args.json:
        return found
    show(found)
    return None


def show(found: dict[str, Any]) -> None:
    """The table of a report: accuracies in per cent."""
    columns = ("Pre", "Dep", "Avg", "F", "H Mean", "agreement", "restore error")
    cells = [(name, *(f"{row[c]:.1f}" if c in row else "" for c in columns)) for name, row in found["table"].items()]
    table(("network", *columns), cells)
    leaks = [(name, f"{found['probe'][name]:.1f}", f"{found['membership'][name]:.2f}") for name in found["probe"]]
    table(("network", "linear probe, deposited classes", "membership AUC"), leaks)


verbs["lirf"] = Verb("take classes out of a classifier into a file, and put them back", arguments, run)
