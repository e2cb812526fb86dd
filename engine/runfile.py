"""A run as one zip: its record and log as JSON, its pictures, its deltas. Another installation reads it; it trusts
nothing in it: names are taken from a short list, sizes are bounded, every part is checked before anything is kept."""

import json
import re
import shutil
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from engine.core.errors import DamagedFile, DiskFull, UserError
from engine.files import atomic, room_for

FORMAT = 1
RECORD = "run.json"
NAMES = re.compile(r"run\.json|pictures/\d{6}-[a-z0-9][a-z0-9._-]{0,63}\.webp|deltas/\d\.safetensors")
MOST_FILES = 5000
LARGEST_RECORD = 20_000_000
LARGEST = 4_000_000_000
WIDEST = 2048  # px of a picture
WAY_OUT = "export it again on the Runs page it comes from"
ENDED = ("done", "stopped", "failed")


@dataclass(frozen=True)
class RunFile:
    """What a zip held: the checked record, and the folder with its files."""

    record: Mapping[str, Any]
    pictures: tuple[Path, ...]
    deltas: tuple[Path, ...]


def pack(path: Path, record: Mapping[str, Any], pictures: Sequence[Path], deltas: Sequence[Path]) -> None:
    """Pictures and weights do not get smaller, so only the record is compressed."""
    with atomic(path) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as file:
        file.writestr(RECORD, json.dumps({"format": FORMAT, **record}), zipfile.ZIP_DEFLATED)
        for picture in pictures:
            file.write(picture, f"pictures/{picture.name}")
        for index, delta in enumerate(deltas):
            file.write(delta, f"deltas/{index}.safetensors")


def unpack(path: Path, folder: Path) -> RunFile:
    """Checks a zip and lays its parts into an empty folder."""
    if not path.is_file():
        raise UserError(f"{path.name} is not there, or is not a file; name the zip of a run")
    try:
        with zipfile.ZipFile(path) as file:
            entries = _entries(file, shutil.disk_usage(folder).free)
            for entry in entries:
                target = (folder / entry.filename).resolve()
                if not target.is_relative_to(
                    folder.resolve()
                ):  # the names are checked; this holds even if they were not
                    raise DamagedFile(f"this zip reaches out of its folder; {WAY_OUT}")
                target.parent.mkdir(exist_ok=True)
                with room_for("this run"), file.open(entry) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, zlib.error, OSError) as error:
        raise DamagedFile(f"this is not a whole zip of a run; {WAY_OUT}") from error
    pictures = tuple(sorted((folder / "pictures").glob("*")))
    for picture in pictures:
        _check_picture(picture)
    return RunFile(
        _record(folder / RECORD, {p.name for p in pictures}), pictures, tuple(sorted((folder / "deltas").glob("*")))
    )


def _entries(file: zipfile.ZipFile, free: int) -> list[zipfile.ZipInfo]:
    """zipfile never reads more of an entry than its header says, so the headers bound what is written."""
    entries = file.infolist()
    names = [entry.filename for entry in entries]
    if len(entries) > MOST_FILES or len(set(names)) < len(names) or RECORD not in names:
        raise DamagedFile(f"this zip does not hold one run; {WAY_OUT}")
    for entry in entries:
        known = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if not NAMES.fullmatch(entry.filename) or entry.flag_bits & 1 or not known:
            raise DamagedFile(f"this zip holds {entry.filename[:80]!r}, which is no part of a run; {WAY_OUT}")
        if entry.filename == RECORD and entry.file_size > LARGEST_RECORD:
            raise DamagedFile(f"the record in this zip is larger than any run's; {WAY_OUT}")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > LARGEST:
        raise UserError("this zip unpacks to more than 4 GB, which no run has; " + WAY_OUT)
    if unpacked > free // 2:
        raise DiskFull(
            "the disk is full, or nearly: this run would take more than half of what is left; free some space"
        )
    return entries


def _check_picture(path: Path) -> None:
    try:
        with Image.open(path, formats=["WEBP"]) as picture:
            if max(picture.size) > WIDEST:
                raise ValueError("too large")
            picture.load()
    except (OSError, ValueError, Image.DecompressionBombError, SyntaxError) as error:
        raise DamagedFile(f"the picture {path.name} in this zip cannot be read; {WAY_OUT}") from error


def _record(path: Path, pictures: set[str]) -> dict[str, Any]:
    """The record with every field of the kind it must have; anything more in it is left out."""
    try:
        told = json.loads(path.read_bytes())
        if told["format"] != FORMAT:
            raise UserError(f"this zip has format {str(told['format'])[:40]}; this version reads format {FORMAT}")
        params = told["params"]
        target = dict(params["target"])
        found = {
            "run": _text(told["run"], 64),
            "title": _text(told["title"], 300),
            "state": _one_of(told["state"], ENDED),
            "error": None if told["error"] is None else _text(told["error"], 2000),
            "base": _text(params["base"], 64),
            "fingerprint": _text(told["fingerprint"], 64),
            "method": _text(params["method"], 64),
            "knobs": dict(params["knobs"]),
            "target": {**target, "kind": _text(target["kind"], 20), "words": _text(target["words"], 300)},
            "deltas": _texts(params["deltas"], 64),
            "times": [_moment(told["created"]), *map(_moment_or_none, (told["started"], told["finished"]))],
            "scalars": _numbers(told["scalars"]),
            "events": [(_moment(t), _event(data, pictures)) for t, data in told["events"]],
        }
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        if isinstance(error, UserError):
            raise
        raise DamagedFile(f"the record in this zip is not a run's ({str(error)[:200]}); {WAY_OUT}") from error
    return found


def _event(data: Mapping[str, Any], pictures: set[str]) -> dict[str, Any]:
    if "snapshot" in data:
        return {"snapshot": int(data["snapshot"])}
    images = {_text(name, 64): file for name, file in dict(data.get("images", {})).items() if file in pictures}
    told = {"step": int(data["step"]), "total": int(data["total"]), "scalars": _numbers(data.get("scalars", {}))}
    told |= {"images": images, "note": _text(data.get("note", ""), 300)}
    return {name: value for name, value in told.items() if value not in ({}, "")}


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError(f"a text of up to {longest} letters was expected")
    value.encode("utf-8")  # refuses halves of letters: JSON can bring them, and no database takes them
    return value


def _texts(values: Any, longest: int) -> list[str]:
    if not isinstance(values, list):
        raise ValueError("a list was expected")
    return [_text(value, longest) for value in values]


def _one_of(value: Any, known: Sequence[str]) -> str:
    if value not in known:
        raise ValueError(f"one of {', '.join(known)} was expected")
    return value


def _moment(stamp: Any) -> float:
    """Seconds since 1970, before the year 2100."""
    if not 0 <= float(stamp) < 4e9:
        raise ValueError("a moment was expected")
    return float(stamp)


def _moment_or_none(stamp: Any) -> float | None:
    return None if stamp is None else _moment(stamp)


def _numbers(values: Any) -> dict[str, float]:
    return {_text(name, 100): float(value) for name, value in dict(values).items()}
