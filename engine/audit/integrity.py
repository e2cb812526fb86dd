"""Is this the erasure its card speaks of, on the base it names, and is it what is applied now?"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

from engine.delta import Delta, compose, digest, fingerprint


@dataclass(frozen=True)
class Fact:
    """`is_good` is None where there is nothing to compare with."""

    what: str
    words: str
    is_good: bool | None

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def weights(base: nn.Module, delta: Delta) -> list[Fact]:
    """Fingerprints against the card, and what taking the erasure back gives."""
    card, now = delta.card, fingerprint(base)
    facts = [_same("Base", now, card.base, "the weights named on the card")]
    if card.weights:
        facts.append(_same("Erasure", delta.fingerprint, card.weights, "as its card says"))
    else:
        words = f"fingerprint {delta.fingerprint}; its card was written before cards named one"
        facts.append(Fact("Erasure", words, None))
    broken = [name for name, change in delta.tensors.items() if not change.isfinite().all()]
    size = f"{len(delta.tensors)} tensors changed, {delta.bytes / 1000:,.0f} kB"
    facts.append(Fact("Numbers", f"{size}; {'not all are finite' if broken else 'all finite'}", not broken))
    compose(base, [delta])
    is_back = fingerprint(base) == now
    words = "bit for bit the base" if is_back else "not the base: applying it changed the base itself"
    facts.append(Fact("Left out", f"Without the erasure the model is {words}", is_back))
    return facts


def applied(subject: str, on_top_of: Sequence[str], present: Sequence[str], active: Sequence[str]) -> list[Fact]:
    """The card against the active set. `present` are the deltas of `on_top_of` that are still here."""
    facts, audited = [], [*on_top_of, subject]
    if missing := [name for name in on_top_of if name not in present]:
        words = f"made on top of {', '.join(missing)}, not here any more: the combination is approximate"
        facts.append(Fact("On top of", words, False))
    if subject not in active:
        facts.append(Fact("Applied now", "no: the model in use is without this erasure", None))
    elif list(active) == audited:
        facts.append(Fact("Applied now", "yes, in exactly the audited combination", True))
    else:
        others = ", ".join(name for name in active if name not in audited) or "another order"
        facts.append(Fact("Applied now", f"yes, but in another combination than the audited one: {others}", False))
    return facts


def code(w: Tensor, fingerprint_on_card: str) -> list[Fact]:
    """Whether the person given is the one that was erased, as far as a fingerprint tells."""
    if not fingerprint_on_card:
        return []
    if digest({"w": w}) == fingerprint_on_card:
        return [Fact("Person", "the very code that was erased, by its fingerprint", True)]
    words = "not the very code that was erased (another photo, another face, or found on another machine)"
    return [Fact("Person", words, None)]


def _same(what: str, found: str, named: str, words: str) -> Fact:
    if found == named:
        return Fact(what, f"{words}: fingerprint {found}", True)
    return Fact(what, f"fingerprint {found}, but the card says {named or 'nothing'}", False)
