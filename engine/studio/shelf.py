"""Models on the shelf: which there are, pictures of them, taking one in and giving one out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine import assets
from engine import bases as imported
from engine.core.errors import UserError
from engine.generators import bases
from engine.models import Models, pictures
from engine.store import Store, checked


@dataclass(frozen=True)
class BaseInfo:
    """A base as a front end shows it."""

    name: str
    title: str
    licence: str
    missing: tuple[str, ...] = ()  # assets that must be fetched first
    parent: str = ""  # the file it was imported from


class Shelf:
    """The part of the Studio that shows, imports and exports models."""

    store: Store
    models: Models
    first_base: str | None

    def bases(self) -> list[BaseInfo]:
        """Those that come with Lethe, then the imported ones."""
        ours = [
            BaseInfo(name, base.title, base.licence, tuple(need for need in base.needs if not assets.is_present(need)))
            for name, base in bases.items()
        ]
        theirs = [
            BaseInfo(name, f"{name}, imported {card.architecture}", card.licence, parent=card.source_name)
            for name, card in imported.list_bases(self.store.bases).items()
        ]
        return ours + theirs

    def import_base(self, path: Path, name: str, *, licence: str = "not stated") -> BaseInfo:
        """Takes in a foreign checkpoint without running anything in it. A taken name is refused."""
        from engine.importer import read

        if checked(name) in bases:
            raise UserError(f"{name} is the name of a base that comes with Lethe; choose another")
        imported.save_base(self.store.bases, name, read(Path(path)), licence=licence)
        self.models.drop(name)
        return next(info for info in self.bases() if info.name == name)

    def delete_base(self, name: str) -> None:
        """Deletes an imported base; what was erased from it is useless then and goes along."""
        if name in bases:
            raise UserError(f"{name} comes with Lethe and cannot be deleted")
        imported.delete_base(self.store.bases, name)
        for delta in self.store.cards(name):
            self.store.delete_delta(delta)
        self.models.drop(name)

    def export(self, base: str, deltas: Sequence[str], path: Path, *, as_pickle: bool = False) -> Path:
        """Writes the model with these erasures baked in, for release: safetensors with a card, or, for a base that
        came from a published pickle, that pickle with only its numbers replaced."""
        from engine.export import export_baked, export_drop_in

        model, path = self.models.with_deltas(base, deltas), Path(path)
        if path.suffix != (".pkl" if as_pickle else ".safetensors"):
            raise UserError(f"{path.name}: name the file .safetensors, or .pkl for a model that came from a .pkl")
        if not as_pickle:
            words = [self.store.delta(delta).card.request for delta in deltas]
            licence = next(info.licence for info in self.bases() if info.name == base)
            export_baked(model, path, {"base": base, "forgotten": words, "licence": licence})
            return path
        source = self.store.bases / f"{checked(base)}.safetensors"
        original = imported.original_of(source) if base not in bases and source.exists() else None
        if original is None:
            raise UserError(f"{base} came from no published .pkl, so none can be made; export safetensors instead")
        export_drop_in(model, original, path, sha256=imported.read_card(source).source_sha256)
        return path

    def default_base(self) -> str:
        """The one asked for at the start, else the photorealistic one when its weights are there, else the tiny one."""
        ready = {info.name for info in self.bases() if not info.missing}
        if self.first_base is not None:
            if self.first_base not in ready:
                raise UserError(f"there is no base {self.first_base!r} here; there are {', '.join(sorted(ready))}")
            return self.first_base
        return "ffhq" if "ffhq" in ready else "tiny"

    def is_of_faces(self, base: str) -> bool:
        """Whether photos of people can be found in it. An imported one is taken at its word: it may be."""
        return bases[base].of_faces if base in bases else True

    def sizes(self, base: str) -> list[int]:
        return self.facts(base)["sizes"]

    def facts(self, base: str) -> dict[str, Any]:
        """What one may want to know of a model before using it."""
        return self.models.facts(base)

    def sample(
        self,
        base: str,
        seeds: Sequence[int],
        deltas: Sequence[str] = (),
        *,
        psi: float = 0.7,
        size: int | None = None,
        yaw: float = 0.0,
    ) -> list[np.ndarray]:
        """Pictures of seeds, HWC uint8. The same seed gives the same picture in any batch."""
        model = self.models.with_deltas(base, deltas)
        with torch.inference_mode():
            w = model.map(model.sample_z([checked_seed(seed) for seed in seeds]), psi=psi)
        return pictures(model, w, size=size, yaw=yaw)

    def between(
        self,
        base: str,
        first: int,
        last: int,
        count: int = 7,
        deltas: Sequence[str] = (),
        *,
        psi: float = 0.7,
        size: int | None = None,
    ) -> list[np.ndarray]:
        """A strip of pictures on the straight line in W between two seeds."""
        model = self.models.with_deltas(base, deltas)
        with torch.inference_mode():
            a, b = model.map(model.sample_z([checked_seed(first), checked_seed(last)]), psi=psi)
            w = torch.stack([torch.lerp(a, b, t.item()) for t in torch.linspace(0, 1, count)])
        return pictures(model, w, size=size)


def checked_seed(seed: int) -> int:
    if not 0 <= int(seed) < 2**63:
        raise UserError(f"seed {seed}: must be a whole number from 0 to 2^63 - 1")
    return int(seed)
