"""Labels as a file, JSON or CSV, bound to the exact weights they were made on: directions do not carry over."""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.core.errors import Mismatch, UserError

MARK = "# lethe labels "  # opens a CSV; the rest of the line is the head as JSON
COLUMNS = ("seed", "label", "drawn", "page", "time")
WAY_OUT = "export one with 'python app.py label-export' to see the form"


@dataclass(frozen=True)
class Binding:
    """Which weights and which codes the seeds of a file mean."""

    base: str
    fingerprint: str
    latent: str  # w or z
    shape: tuple[int, int]  # num_ws, w_dim
    psi: float


def write(exported: Mapping[str, Any], binding: Binding, kind: str = "json") -> str:
    """The text of a file; `exported` is what LabelBook.export gives."""
    if kind not in ("json", "csv"):
        raise UserError(f"labels as {kind!r}: must be json or csv")
    head = {**{key: value for key, value in exported.items() if key != "labels"}, **asdict(binding)}
    if kind == "json":
        return json.dumps({**head, "labels": exported["labels"]}, indent=1, ensure_ascii=False)
    text = io.StringIO()
    text.write(f"{MARK}{json.dumps(head, ensure_ascii=False)}\n")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for label in exported["labels"]:
        page = "" if label["page"] is None else label["page"]
        rows.writerow((label["seed"], label["value"], label["how"], page, label["t"]))
    return text.getvalue()


def read(text: str) -> dict[str, Any]:
    """What `write` got, from either form."""
    try:
        if not text.startswith(MARK):
            found = json.loads(text)
            return _head(dict(found)) | {"labels": list(found["labels"])}
        head, _, body = text.removeprefix(MARK).partition("\n")
        return _head(json.loads(head)) | {"labels": [_label(row) for row in csv.DictReader(io.StringIO(body))]}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        raise UserError(f"this is not a file of labels ({str(error)[:200]}); {WAY_OUT}") from error


def _head(found: dict[str, Any]) -> dict[str, Any]:
    """What the file says of its model, each of its kind; what it leaves out is asked for by `check_binding`."""
    for name, longest in (("base", 64), ("fingerprint", 64), ("latent", 8)):
        if not isinstance(found.get(name, ""), str) or len(found.get(name, "")) > longest:
            raise ValueError(f"its {name} is no text of up to {longest} letters")
    psi, shape = found.get("psi", 1.0), found.get("shape", [])
    if isinstance(psi, bool) or not isinstance(psi, (int, float)) or not math.isfinite(psi):
        raise ValueError("its psi is no number")
    if not isinstance(shape, list) or not all(type(side) is int for side in shape):
        raise ValueError("its shape is no list of whole numbers")
    return found


def _label(row: Mapping[str, str]) -> dict[str, Any]:
    page = int(row["page"]) if row["page"] else None
    made = {"t": float(row["time"])} if row.get("time") else {}
    return {"seed": int(row["seed"]), "value": int(row["label"]), "how": row["drawn"], "page": page, **made}


def check_binding(found: Mapping[str, Any], here: Binding) -> None:
    """Refuses labels of another model or of other weights: the same seeds would show other pictures."""
    missing = [key for key in ("base", "fingerprint", "psi") if key not in found]
    if missing:
        raise UserError(f"this file of labels does not say its {', '.join(missing)}; {WAY_OUT}")
    if found["fingerprint"] != here.fingerprint:
        raise Mismatch(
            f"these labels were made on {found['base']} with the weights {found['fingerprint']}; the weights of "
            f"{here.base} here are {here.fingerprint}, so the same seeds show other pictures: label this model anew"
        )
    shape = tuple(found.get("shape", here.shape))
    if found.get("latent", here.latent) != here.latent or shape != tuple(here.shape):
        raise Mismatch(
            f"these labels are for codes of shape {shape} in {found.get('latent')}; "
            f"{here.base} has {tuple(here.shape)} in {here.latent}: label this model anew"
        )
