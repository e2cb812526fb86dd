"""Kept erasures: which there are, which are applied, deleting one for good."""

from collections.abc import Sequence

from engine.delta import Card
from engine.models import Models
from engine.store import Store


class Kept:
    """The part of the Studio that applies and withdraws."""

    store: Store
    models: Models

    def deltas(self, base: str | None = None) -> dict[str, Card]:
        return self.store.cards(base)

    def active(self, base: str) -> list[str]:
        return self.store.active(base)

    def activate(self, base: str, names: Sequence[str]) -> None:
        """Applies exactly these; leaving one out is taking it back."""
        self.store.activate(base, names)

    def delete_delta(self, name: str) -> None:
        self.store.delete_delta(name)
        self.models.drop_composed(lambda key: name in key[1])
