"""Imported bases in one folder: NAME.safetensors with a card in its header, and NAME.pkl if the original was kept."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from engine.core.errors import DamagedFile, Mismatch, UserError
from engine.delta import digest
from engine.files import atomic, save_tensors
from engine.generators import architectures
from engine.importer import HEADER, Imported
from engine.importer import digest as file_digest
from engine.store import checked

FORMAT = 1


@dataclass(frozen=True)
class BaseCard:
    """What an imported base is and where it came from."""

    architecture: str
    config: Mapping[str, object]
    fingerprint: str  # of the weights, as deltas name their base
    source_name: str
    source_sha256: str
    kind: str  # pickle | torch | safetensors
    licence: str
    imported: str  # when, as ISO 8601
    original: str | None = None  # file name of the kept original
    attributes: Mapping[str, object] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT


def save_base(
    folder: Path, name: str, imported: Imported, *, licence: str = "not stated", keep_original: bool = True
) -> BaseCard:
    """Keeps an imported generator under a new name, after proving that it can be built.

    Of a published pickle the original is kept too: only with it can a file for the published tools be made.
    """
    path = folder / f"{checked(name)}.safetensors"
    if path.exists():
        raise UserError(f"there is already a base called {name}; choose another name or delete that one first")
    build(imported.architecture, imported.config, imported.tensors)
    for tensor_name, tensor in imported.tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise DamagedFile(
                f"{imported.source.name} holds values at {tensor_name} that are no numbers; fetch it again"
            )
    original = path.with_suffix(".pkl") if keep_original and imported.kind == "pickle" else None
    if original:
        _copy(imported, original)
    card = BaseCard(
        imported.architecture,
        imported.config,
        digest(imported.tensors),
        imported.source.name,
        imported.source_sha256,
        imported.kind,
        licence,
        datetime.now().astimezone().isoformat(timespec="seconds"),
        original.name if original else None,
        imported.attributes,
        imported.code,
    )
    save_tensors(path, imported.tensors, {HEADER: json.dumps(asdict(card), sort_keys=True)})
    return card


def _copy(imported: Imported, target: Path) -> None:
    with imported.source.open("rb") as source, atomic(target) as file:
        shutil.copyfileobj(source, file, 1 << 20)
    if file_digest(target) != imported.source_sha256:
        target.unlink()
        raise DamagedFile(f"{imported.source.name} changed while it was imported; import it again")


def load_base(path: Path) -> nn.Module:
    """The generator of a saved base."""
    card = read_card(path)
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    return build(card.architecture, card.config, tensors)


def read_card(path: Path) -> BaseCard:
    """Reads the header only."""
    try:
        with safe_open(path, framework="pt") as file:
            card = json.loads((file.metadata() or {})[HEADER])
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path.name} is not a base of this studio, or was cut off; import it again") from error
    known = {entry.name for entry in fields(BaseCard)}
    if not isinstance(card, dict) or card.get("format") != FORMAT or set(card) != known:
        raise DamagedFile(f"{path.name} was saved by another version (this one reads format {FORMAT}); import it again")
    return BaseCard(**card)


def list_bases(folder: Path) -> dict[str, BaseCard]:
    """Names and cards; a file that cannot be read is left out here and named by `damaged_bases`."""
    cards = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            cards[path.stem] = read_card(path)
        except DamagedFile:
            continue
    return cards


def damaged_bases(folder: Path) -> list[str]:
    good = list_bases(folder)
    return [path.name for path in sorted(folder.glob("*.safetensors")) if path.stem not in good]


def delete_base(folder: Path, name: str) -> None:
    """The weights and, if it was kept, the original. A damaged file can be deleted too."""
    path = folder / f"{checked(name)}.safetensors"
    if not path.exists():
        raise UserError(f"there is no imported base {name}; the Models page lists them")
    path.with_suffix(".pkl").unlink(missing_ok=True)
    path.unlink()


def original_of(path: Path) -> Path | None:
    """The file a saved base was imported from, if it was kept."""
    name = read_card(path).original
    return path.parent / Path(name).name if name else None


def build(architecture: str, config: Mapping[str, object], tensors: Mapping[str, Tensor]) -> nn.Module:
    """A generator from settings and weights that must fit each other exactly."""
    # On the meta device settings cost no memory, whatever they say; so compare there first.
    with torch.device("meta"):
        outline = _make(architecture, config)
    compare(outline.state_dict(), tensors, optional=getattr(outline, "optional_tensors", ()))
    model = _make(architecture, config)
    model.load_state_dict(tensors)
    return model


def _make(architecture: str, config: Mapping[str, object]) -> nn.Module:
    known = architectures[architecture]
    try:
        return known(**config)
    except UserError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Mismatch(f"its settings make no {architecture} generator ({reason}); import an unchanged file") from error


def compare(expected: Mapping[str, Tensor], given: Mapping[str, Tensor], *, optional: Sequence[str] = ()) -> None:
    """Names the first tensor that is missing, has another shape, or is not known; optional ones may come along."""
    for name, tensor in expected.items():
        if name not in given:
            raise Mismatch(f"the weights lack {name}; the file is not whole, or not of this architecture")
        if given[name].shape != tensor.shape:
            shapes = f"{list(given[name].shape)}, but its settings ask for {list(tensor.shape)}"
            raise Mismatch(f"{name} has shape {shapes}; settings and weights are not of one model")
    for name in given:
        if name not in expected and name not in optional:
            raise Mismatch(f"the weights have {name}, which this architecture does not know")
