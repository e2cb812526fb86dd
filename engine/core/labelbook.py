"""What users said about samples: with or without a feature. In the studio's SQLite file, every row with its owner."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from engine.core.database import connect, prepare
from engine.core.errors import UserError
from engine.core.targets import Labels

SCHEMA = """
create table if not exists label(
    owner text not null, base text not null, feature text not null, seed integer not null, value integer not null,
    how text not null, page integer, t real not null, primary key(owner, base, feature, seed));
"""
HOW = ("random", "chosen", "guess")  # drawn at random, picked actively, a confirmed guess of the probe
LONGEST = 60
LATEST = 1e11  # seconds since 1970; far ahead
FORMAT = 1


@dataclass(frozen=True)
class Label:
    """One answer: value 1 is "with", 0 is "without"; `page` where whole pages are answered at once."""

    value: Literal[0, 1]
    how: str = "random"
    page: int | None = None
    t: float = 0.0


@dataclass(frozen=True)
class Counts:
    """Labels of each side, and how many of them are of samples that were picked, not drawn at random."""

    having: int
    lacking: int
    picked_having: int = 0
    picked_lacking: int = 0

    @property
    def random(self) -> "Counts":
        """Only of samples drawn at random: thresholds come from these, so erasing needs enough of them."""
        return Counts(self.having - self.picked_having, self.lacking - self.picked_lacking)


class LabelBook:
    """Labels by owner, base and feature. What `set_many` returned from is on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        prepare(path, SCHEMA)

    def set_many(
        self,
        owner: str,
        base: str,
        feature: str,
        labels: Mapping[int, int | None],
        *,
        how: str = "random",
        page: int | None = None,
    ) -> None:
        """Writes all of them or none; None takes a label back."""
        feature, now = checked_feature(feature), time.time()
        if how not in HOW:
            raise UserError(f"labels made {how!r}: must be one of {', '.join(HOW)}")
        rows = [(_seed(seed), _value(value)) for seed, value in labels.items()]
        with connect(self.path) as db:
            db.executemany(
                "insert or replace into label values(?,?,?,?,?,?,?,?)",
                [(owner, base, feature, seed, value, how, page, now) for seed, value in rows if value is not None],
            )
            db.executemany(
                "delete from label where owner=? and base=? and feature=? and seed=?",
                [(owner, base, feature, seed) for seed, value in rows if value is None],
            )

    def get(self, owner: str, base: str, feature: str) -> dict[int, Label]:
        """In the order in which they were given."""
        query = "select seed, value, how, page, t from label where owner=? and base=? and feature=? order by rowid"
        with connect(self.path) as db:
            rows = db.execute(query, (owner, base, checked_feature(feature))).fetchall()
        return {row["seed"]: Label(row["value"], row["how"], row["page"], row["t"]) for row in rows}

    def counts(self, owner: str, base: str, feature: str) -> Counts:
        return self.features(owner, base).get(checked_feature(feature), Counts(0, 0))

    def features(self, owner: str, base: str) -> dict[str, Counts]:
        """Names with their counts, the one touched last first."""
        query = (
            "select feature, sum(value), sum(1 - value), sum(value and how != 'random'), "
            "sum(not value and how != 'random') from label where owner=? and base=? "
            "group by feature order by max(rowid) desc"
        )
        with connect(self.path) as db:
            rows = db.execute(query, (owner, base)).fetchall()
        return {name: Counts(*counts) for name, *counts in rows}

    def owners(self, base: str, feature: str | None = None) -> list[str]:
        """Who has labelled this feature, or anything at all, of a base."""
        query = "select distinct owner from label where base=? and feature=coalesce(?, feature) order by owner"
        with connect(self.path) as db:
            rows = db.execute(query, (base, None if feature is None else checked_feature(feature))).fetchall()
        return [owner for (owner,) in rows]

    def target(self, owner: str, base: str, feature: str, psi: float = 1.0) -> Labels:
        """What a method is asked to forget."""
        return _target(checked_feature(feature), self.get(owner, base, feature), psi)

    def delete(self, owner: str, base: str, feature: str) -> None:
        with connect(self.path) as db:
            place = (owner, base, checked_feature(feature))
            db.execute("delete from label where owner=? and base=? and feature=?", place)

    def export(self, owner: str, base: str, feature: str) -> dict[str, Any]:
        """As JSON can hold it; without the owner."""
        rows = [{"seed": seed, **asdict(label)} for seed, label in self.get(owner, base, feature).items()]
        return {"format": FORMAT, "base": base, "feature": checked_feature(feature), "labels": rows}

    def load(self, owner: str, exported: Any) -> str:
        """Takes in what `export` gave, all or nothing, and gives the feature's name."""
        base, feature, labels = _read(exported)
        with connect(self.path) as db:
            db.executemany(
                "insert or replace into label values(?,?,?,?,?,?,?,?)",
                [(owner, base, feature, seed, one.value, one.how, one.page, one.t) for seed, one in labels.items()],
            )
        return feature


def labels_of(exported: Any, psi: float = 1.0) -> Labels:
    """The target in what `export` gave, which need not be stored for that."""
    _, feature, labels = _read(exported)
    return _target(feature, labels, psi)


def _target(feature: str, labels: Mapping[int, Label], psi: float) -> Labels:
    sides = [tuple(seed for seed, label in labels.items() if label.value == side) for side in (1, 0)]
    chosen = tuple(seed for seed, label in labels.items() if label.how != "random")
    return Labels(feature, *sides, chosen=chosen, psi=psi)


def _read(exported: Any) -> tuple[str, str, dict[int, Label]]:
    """Base, feature and labels; a label without a time was made now."""
    try:
        if exported["format"] != FORMAT:
            raise UserError(f"labels of format {exported['format']!r}: this version reads format {FORMAT}")
        base, feature, now = str(exported["base"]), checked_feature(exported["feature"]), time.time()
        labels = {
            _seed(row["seed"]): Label(
                _value(row["value"], taken_back=False), row.get("how", "random"), row.get("page"), row.get("t") or now
            )
            for row in exported["labels"]
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError("this is not a file of labels; export one on the Feature page to see the form") from error
    for label in labels.values():
        how, page, t = label.how, label.page, label.t
        if how not in HOW or not (page is None or (isinstance(page, int) and 0 <= page < 2**31)):
            made = f"{str(how)[:40]!r} on page {str(page)[:40]}"
            raise UserError(f"a label made {made}: must be one of {', '.join(HOW)}, page a number")
        if isinstance(t, bool) or not isinstance(t, (int, float)) or not 0 <= t < LATEST:
            raise UserError(f"a label made at {str(t)[:40]}: must be a time in seconds since 1970")
    return base, feature, labels


def checked_feature(name: Any) -> str:
    """A feature's name with its spaces in order; an empty or endless one is refused."""
    words = " ".join(name.split()) if isinstance(name, str) else ""
    if not words or len(words) > LONGEST or words.encode("utf-8", "ignore").decode() != words:
        raise UserError(f"a feature needs a name of 1 to {LONGEST} letters, such as “glasses”")
    return words


def _seed(seed: Any) -> int:
    try:
        number = int(seed)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"seed {str(seed)[:40]!r}: must be a whole number") from error
    if not 0 <= number < 2**63 or (isinstance(seed, float) and number != seed):
        raise UserError(f"seed {str(seed)[:40]}: must be a whole number from 0 to 2^63 - 1")
    return number


def _value(value: Any, *, taken_back: bool = True) -> int | None:
    if value is None and taken_back:
        return None
    if isinstance(value, bool) or value not in (0, 1):
        raise UserError(f"label {str(value)[:40]!r}: must be 1 (with) or 0 (without)")
    return int(value)
