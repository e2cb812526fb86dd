"""Pictures for the page: webp in data addresses, so that no file of anybody lies about. The last are kept ready."""

import base64
import contextlib
import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from PIL import Image

from engine.core.errors import UserError
from engine.core.joblog import Row
from engine.memory import give_back
from engine.studio import RUN, Studio

KEEP = 1024
FACES = (11, 20, 3, 45, 28, 7, 52, 38)  # the faces of the start page
WEBP = "data:image/webp;base64,"
BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="  # stands where one will be
_album: OrderedDict[tuple, str] = OrderedDict()
_lock = threading.Lock()


def data_uri(pixels: Any, *, quality: int = 86, lossless: bool = False) -> str:
    """An HWC uint8 array as an address an <img> can show."""
    return f"{WEBP}{webp_text(pixels, quality=quality, lossless=lossless)}"


def webp_text(pixels: Any, *, quality: int = 86, lossless: bool = False) -> str:
    """An HWC uint8 array as a WebP in base64."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "webp", quality=quality, lossless=lossless, method=2)
    return base64.b64encode(file.getvalue()).decode()


def webp_uri(content: bytes) -> str:
    return f"{WEBP}{base64.b64encode(content).decode()}"


def samples(
    studio: Studio,
    base: str,
    seeds: Sequence[int],
    deltas: Sequence[str] = (),
    *,
    psi: float = 0.7,
    size: int | None = None,
    yaw: float = 0.0,
) -> list[str]:
    """Pictures of seeds; only those that were not made lately are made."""
    keys = {seed: (str(studio.store.root), base, seed, tuple(deltas), psi, size, yaw) for seed in seeds}
    with _lock:
        ready = {seed: _album[key] for seed, key in keys.items() if key in _album}
    missing = [seed for seed in keys if seed not in ready]
    if missing:
        made = studio.sample(base, missing, deltas, psi=psi, size=size, yaw=yaw)
        ready |= {seed: data_uri(pixels) for seed, pixels in zip(missing, made, strict=True)}
        with _lock:
            _album.update({keys[seed]: ready[seed] for seed in missing})
            while len(_album) > KEEP:
                _album.popitem(last=False)
    return [ready[seed] for seed in seeds]


def before_and_after(
    studio: Studio,
    row: Row,
    seeds: Sequence[int],
    *,
    psi: float,
    size: int | None = None,
    yaw: float = 0.0,
    owner: str,
) -> tuple[list[str], list[str]]:
    """Pictures of seeds without and with a run's result, which need not be kept yet."""
    before = samples(studio, row.params["base"], seeds, row.params["deltas"], psi=psi, size=size, yaw=yaw)
    result = [*row.params["deltas"], f"{RUN}{row.id}"]
    after = studio.draw(row.params["base"], result, seeds, psi=psi, size=size, yaw=yaw, owner=owner)
    return before, [data_uri(made) for made in after]


def forget_all() -> None:
    """After an erasure was deleted nothing of it stays in memory."""
    with _lock:
        _album.clear()


def small(studio: Studio, base: str, at_least: int = 128) -> int:
    """The smallest side that is still good to look at."""
    sizes = studio.sizes(base)
    return min((size for size in sizes if size >= at_least), default=max(sizes))


def warm(studio: Studio) -> None:
    """Makes the start page's faces before anybody asks; what loading the model took and no longer needs goes back."""
    base = studio.default_base()
    with contextlib.suppress(UserError):  # the page itself will say what is missing
        samples(studio, base, FACES, size=small(studio, base))
    give_back()
