"""`doctor`: what is here, what is missing, and how to get it."""

import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

from engine.commands import Verb, verbs
from engine.commands.screen import table

PACKAGES = (
    "torch",
    "torchvision",
    "gradio",
    "lpips",
    "facenet-pytorch",
    "pytorch-msssim",
    "safetensors",
    "scikit-learn",
)


TOOLS = {"npm": "the expression, age and landmark networks come by it", "chromium": "only the browser tests need it"}


def arguments(parser: Any) -> None:
    pass


def run(args: Any, open_studio: Any) -> Any:
    from engine import assets

    studio = open_studio()
    rows = [("machine", name, str(value), "") for name, value in studio.machine().items()]
    rows += [("package", name, *_version(name)) for name in PACKAGES]
    rows += [
        ("asset", seen.asset.name, seen.state, "" if seen.state == "present" else assets.WAY_OUT)
        for seen in assets.status()
    ]
    for tool, need in TOOLS.items():
        found = shutil.which(tool)
        rows.append(("tool", tool, found or "not installed", "" if found else need))
    rows += [("file", name, "damaged", "delete it, or put a copy in its place") for name in studio.store.damaged()]
    if _is_tight(studio.store.root):
        rows.append(("disk", "free space", "under 2 GB", "free some space before a long run"))
    if args.json:
        return [dict(zip(("kind", "name", "state", "way out"), row, strict=True)) for row in rows]
    table(("kind", "name", "state", "way out"), rows)
    return None


def _version(package: str) -> tuple[str, str]:
    try:
        return importlib.metadata.version(package), ""
    except importlib.metadata.PackageNotFoundError:
        return "missing", "run 'make install'"


def _is_tight(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < 2e9


verbs["doctor"] = Verb("say what is here, what is missing and how to get it", arguments, run)
