"""Damaged and hostile files, made from a seed: good files that were spoilt, and files that were built to do harm.

`spoilt(good, number, random)` is one of the many ways in which a good file goes wrong. The functions `odd_...` give
whole files for one kind of door (see `doors.py`) by what they are; a `bomb` says how many bytes they unfold to. What
they would write or run lies in the folder `outside`, so that a protection that fails is seen there and harms nothing.
"""

import gzip
import io
import json
import pickle
import random as randomness
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save

DEPTH = 100_000

Random = randomness.Random


# A good file that was spoilt


def cut_off(good: bytes, random: Random) -> bytes:
    return good[: random.randrange(len(good))]


def cut_off_at_the_end(good: bytes, random: Random) -> bytes:
    return good[: -random.randrange(1, min(64, len(good)))]


def with_flipped_bits(good: bytes, random: Random) -> bytes:
    changed = bytearray(good)
    for _ in range(random.choice((1, 2, 8, 64))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def with_a_flipped_head(good: bytes, random: Random) -> bytes:
    """Where a format says what comes: one bit there does more than many elsewhere."""
    changed = bytearray(good)
    changed[random.randrange(min(len(changed), 200))] ^= 1 << random.randrange(8)
    return bytes(changed)


def with_noise_inside(good: bytes, random: Random) -> bytes:
    at, noise = random.randrange(len(good)), random.randbytes(random.randrange(1, 400))
    return good[:at] + noise + good[at + len(noise) :]


def with_a_hole(good: bytes, random: Random) -> bytes:
    at, wide = random.randrange(len(good)), random.randrange(1, 400)
    return good[:at] + bytes(min(wide, len(good) - at)) + good[at + wide :]


def with_something_before(good: bytes, random: Random) -> bytes:
    return random.randbytes(random.randrange(1, 40)) + good


def swapped(good: bytes, random: Random) -> bytes:
    at = random.randrange(1, len(good))
    return good[at:] + good[:at]


SPOILS: tuple[Callable[[bytes, Random], bytes], ...] = (
    cut_off, cut_off_at_the_end, with_flipped_bits, with_a_flipped_head, with_noise_inside, with_a_hole,
    with_something_before, swapped,
)  # fmt: skip


def spoilt(good: bytes, number: int, random: Random) -> tuple[str, bytes]:
    """In which way, and the file."""
    way = SPOILS[number % len(SPOILS)]
    return way.__name__.replace("_", " "), way(good, random)


# Files that were built to do harm


class RunsCode:
    """A pickle that writes a file when it is opened by a program that trusts it."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple:
        return Path.touch, (self.witness,)


def zipped(files: Mapping[str, bytes], *, pressed: bool = True) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED if pressed else zipfile.ZIP_STORED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return made.getvalue()


def zip_bomb(name: str, size: int, head: bytes = b"") -> bytes:
    """Written in portions: the bomb must not go off here."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file, file.open(name, "w") as entry:
        entry.write(head)
        for _ in range(size >> 20):
            entry.write(bytes(1 << 20))
    return made.getvalue()


def zip_with_a_link(name: str, to: str) -> bytes:
    entry = zipfile.ZipInfo(name)
    entry.create_system, entry.external_attr = 3, 0o120777 << 16
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr(entry, to)
    return made.getvalue()


def zip_that_lies(name: str, content: bytes, claimed: int) -> bytes:
    """Says another size in its directory than it has."""
    good = zipped({name: content}, pressed=False)
    size, lie = struct.pack("<II", len(content), len(content)), struct.pack("<II", len(content), claimed)
    return good.replace(size, lie)


def png(width: int, height: int, *, whole: bool = False, depth: int = 8, colour: int = 2) -> bytes:
    """A PNG that claims this size; with `whole` it has all its pixels, black and well pressed."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    row = 1 + width * {0: 1, 2: 3, 4: 2, 6: 4}[colour] * depth // 8
    press = zlib.compressobj(1)
    pixels = b"".join(press.compress(bytes(row)) for _ in range(height if whole else 0)) + press.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def picture(kind: str, size: tuple[int, int] = (64, 48), **options: object) -> bytes:
    made, random = io.BytesIO(), np.random.default_rng(0)
    Image.fromarray(random.integers(0, 255, (*size[::-1], 3), np.uint8)).save(made, kind, **options)
    return made.getvalue()


def odd_pictures(bomb: int) -> dict[str, bytes]:
    side = int((bomb / 4.3) ** 0.5)  # with four bytes a pixel it unfolds to nearly so many bytes
    return {
        "header of 2,500 million pixels": png(50_000, 50_000),
        "header of 4,000 million pixels a side": png(2**31 - 1, 2**31 - 1),
        "header without pixels": png(0, 0),
        "header of one row of 64 million": png(64_000_000, 1),
        "bomb of grey pixels": png(3 * side // 2, 3 * side // 2, whole=True, colour=0),
        "bomb of pixels with alpha": png(side, side, whole=True, colour=6),
        "bomb of pixels of 16 bits": png(side, side, whole=True, colour=0, depth=16),
        "text chunk that unfolds": _png_with(b"zTXt", b"x\0\0" + zlib.compress(bytes(bomb), 1)),
        "colour profile that unfolds": _png_with(b"iCCP", b"x\0\0" + zlib.compress(bytes(bomb), 1)),
        "GIF named as a photo": picture("GIF"),
        "BMP named as a photo": picture("BMP"),
        "TIFF named as a photo": picture("TIFF"),
        "PostScript named as a photo": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\nshowpage\n",
        "SVG named as a photo": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        "HEIC": b"\0\0\0\x18ftypheic" + bytes(200),
        "JPEG with a damaged rotation": picture("JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + b"\xff" * 40),
        "JPEG of nothing but its mark": b"\xff\xd8\xff\xd9",
        "WebP that claims 16,384 px": b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f" + b"\xff" * 12 + b"\0",
        "animation without end": _animation(),
    }


def _png_with(kind: bytes, content: bytes) -> bytes:
    good = png(64, 64, whole=True)
    chunk = struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return good[:33] + chunk + good[33:]


def _animation() -> bytes:
    made = io.BytesIO()
    frames = [Image.new("RGB", (64, 64), (n, 0, 0)) for n in range(100)]
    frames[0].save(made, "WEBP", save_all=True, append_images=frames[1:], loop=0)
    return made.getvalue()


def odd_safetensors(good_header: Mapping[str, str]) -> dict[str, bytes]:
    """`good_header` is the metadata of a good file: some refusals come only behind it."""

    def raw(header: object, body: bytes = b"", length: int | None = None) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + body

    tensors = {"a.weight": torch.full((4, 4), float("nan")), "b": torch.full((3,), float("inf"))}
    places = [0, 4]
    odd = {
        "header longer than the file": raw({}, length=2**62),
        "header of nothing": raw(b"", length=0),
        "header of no JSON": raw(b"{" * 900),
        "header of deep JSON": raw(b'{"__metadata__":' + b'{"a":' * DEPTH + b"1" + b"}" * DEPTH + b"}"),
        "header of broken UTF-8": raw(b'{"\xff\xfe": {}}'),
        "tensor of 2^60 numbers": raw({"a": {"dtype": "F32", "shape": [2**60], "data_offsets": places}}, bytes(4)),
        "tensor of a negative shape": raw({"a": {"dtype": "F32", "shape": [-1], "data_offsets": places}}, bytes(4)),
        "tensor of an unknown type": raw({"a": {"dtype": "F1", "shape": [1], "data_offsets": places}}, bytes(4)),
        "tensors over each other": raw(
            {n: {"dtype": "F32", "shape": [1], "data_offsets": places} for n in "ab"}, bytes(4)
        ),
        "numbers that are none": save(tensors),
        "no tensor at all": save({}),
    }
    for name, metadata in _odd_headers(good_header).items():
        odd[name] = save(tensors, metadata=metadata)
    return odd


def _odd_headers(good: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Each text of the header in turn is something else."""
    values = {
        "a list": "[1, 2]",
        "a number": "7",
        "null": "null",
        "deep": "[" * DEPTH,
        "no JSON": "\ud7ff{",
        "empty": "",
    }
    values |= {"a format of the future": '{"format": 99}', "a bare format": '{"format": 1}'}
    odd = {f"header whose {key} is {what}": {**good, key: value} for key in good for what, value in values.items()}
    return odd | {f"header without {key}": {k: v for k, v in good.items() if k != key} for key in good}


def odd_texts() -> dict[str, bytes]:
    return {
        "nothing": b"",
        "zero bytes": bytes(5000),
        "broken UTF-8": b'{"format": 1, "labels": "\xff\xfe\xff"}',
        "deep JSON": b"[" * DEPTH,
        "deep JSON objects": b'{"labels":' * DEPTH,
        "a web page": b"<!doctype html><title>404</title>",
        "an endless line": b"a" * 3_000_000,
        "a number of many digits": b'{"format": 1, "labels": [{"seed": ' + b"9" * 6000 + b"}]}",
        "UTF-16": '{"format": 1}'.encode("utf-16"),
    }


def odd_labels(good: Mapping[str, object]) -> dict[str, bytes]:
    """`good` is a whole file of labels as JSON holds it."""
    head = {key: value for key, value in good.items() if key != "labels"}
    wrong: dict[str, object] = {
        "format": [None, 2, "1", {}, []],
        "base": [None, 3, "../../etc/passwd", "nobody", ["tiny"], "\0", "x" * 10_000],
        "feature": [None, 3, "", "x" * 61, ["hat"], {"a": 1}, "half a letter \ud800"],
        "fingerprint": [None, "0" * 16, 7, []],
        "psi": [None, "x", [], {}, "1e400"],
        "shape": [None, 3, "ab", [[1], [2]], {}],
        "latent": [None, 3, []],
        "labels": [None, 3, "ab", {"a": 1}, [1], [[]], [None], {}],
    }
    odd = {
        f"{key} is {str(value)[:20]}": json.dumps({**good, key: value}).encode()
        for key, values in wrong.items()
        for value in values
    }
    odd |= {f"without {key}": json.dumps({k: v for k, v in good.items() if k != key}).encode() for key in good}
    rows = [
        {}, {"seed": 1}, {"seed": -1, "value": 1}, {"seed": 2**70, "value": 1}, {"seed": 1.5, "value": 1},
        {"seed": "x", "value": 1}, {"seed": 1, "value": 7}, {"seed": 1, "value": None}, {"seed": 1, "value": [1]},
        {"seed": 1, "value": 1, "how": "by magic"}, {"seed": 1, "value": 1, "how": ["random"]},
        {"seed": 1, "value": 1, "page": "x"}, {"seed": 1, "value": 1, "page": 2**80}, {"seed": None, "value": 1},
        {"seed": 1, "value": {}}, {"seed": float("inf"), "value": 1}, {"seed": float("nan"), "value": 1},
    ]  # fmt: skip
    odd |= {f"label {str(row)[:60]}": json.dumps({**good, "labels": [row]}).encode() for row in rows}
    odd["numbers that are none"] = json.dumps({**good, "psi": float("nan")}).encode()
    mark = b"# lethe labels "
    tables = {
        "no columns": b"\n1,1\n", "other columns": b"\na,b\n1,2\n", "short rows": b"\nseed,label,drawn,page,time\n1\n",
        "words for numbers": b"\nseed,label,drawn,page,time\nx,y,z,,\n", "no head": b"",
        "an endless cell": b"\nseed,label,drawn,page,time\n" + b"9" * 200_000 + b",1,random,,1\n",
        "zero bytes": b"\nseed,label,drawn,page,time\n\0,1,random,,1\n",
        "an open quote": b'\nseed,label,drawn,page,time\n"1,1,random,,1\n',
        "a formula": b"\nseed,label,drawn,page,time\n=cmd|' /C calc'!A0,1,random,,1\n",
    }  # fmt: skip
    odd |= {f"table of {what}": mark + json.dumps(head).encode() + body for what, body in tables.items()}
    odd |= {
        f"table whose head is {what.decode()[:8]}": mark + what + b"\nseed,label,drawn,page,time\n"
        for what in (b"[]", b"3", b"{", b"null")
    }
    odd["table whose head is deep"] = mark + b"[" * DEPTH + b"\n"
    return odd


def odd_archives(outside: Path, bomb: int) -> dict[str, bytes]:
    """Zips and their like that reach out of their folder, unfold without end, or lie."""
    reaching = [
        "../escaped", "../../escaped", "../../../../../../escaped", f"{outside}/escaped", "pictures/../../../escaped",
        "..\\..\\escaped", "deltas/../../escaped", "/escaped", "C:\\escaped", "pictures/\0/../escaped", "~/escaped",
    ]  # fmt: skip
    odd = {f"zip that reaches {name!r}"[:60]: zipped({"run.json": b"{}", name: b"out"}) for name in reaching}
    odd |= {
        "zip of nothing": zipped({}),
        "zip bomb": zip_bomb("run.json", bomb, b'{"a":"'),
        "zip bomb as a picture": zip_bomb("pictures/000001-before.webp", bomb),
        "zip with a link": zip_with_a_link("deltas/0.safetensors", str(outside)),
        "zip that lies of its size": zip_that_lies("run.json", b"{}" * 40, 2**31),
        "zip in a zip": zipped({"run.json": zipped({"run.json": b"{}"})}),
        "zip of 20,000 files": zipped({f"pictures/{n:06d}-x.webp": b"" for n in range(20_000)}, pressed=False),
        "gzip bomb": gzip.compress(bytes(bomb), 1),
        "tar that reaches out": _tar(outside),
    }
    return odd


def _tar(outside: Path) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        entry = tarfile.TarInfo(f"../../../{outside.name}/escaped")
        entry.size = 3
        file.addfile(entry, io.BytesIO(b"out"))
    return made.getvalue()


def odd_pickles(outside: Path) -> dict[str, bytes]:
    evil = RunsCode(outside / "ran")
    laughs: object = "ha"
    for _ in range(40):
        laughs = [laughs, laughs]
    torch_file = io.BytesIO()
    torch.save({"G_ema": evil}, torch_file)
    old_file = io.BytesIO()
    torch.save({"state_dict": evil}, old_file, _use_new_zipfile_serialization=False)
    odd = {f"pickle that runs code, protocol {n}": pickle.dumps(evil, protocol=n) for n in range(6)}
    odd |= {
        "pickle that runs code deep inside": pickle.dumps({"G_ema": {"a": [1, {"b": evil}]}}),
        "pickle that calls os.system": b"cos\nsystem\n(S'touch " + str(outside).encode() + b"/ran'\ntR.",
        "pickle that evaluates": b"\x80\x02c__builtin__\neval\nX\x04\0\0\01+1.\x85R.",
        "pickle of a thousand laughs": pickle.dumps({"G_ema": laughs}),
        "pickle that is only numbers": pickle.dumps(list(range(1000))),
        "pickle that declares 2^62 bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".",
        "pickle of a billion marks": b"\x80\x04" + b"(" * 500_000 + b".",
        "torch file that runs code": torch_file.getvalue(),
        "old torch file that runs code": old_file.getvalue(),
    }
    return odd


def odd_runs(good: bytes, pictures: Mapping[str, bytes]) -> dict[str, bytes]:
    """The zip of a good run with one of its parts in another's place."""
    with zipfile.ZipFile(io.BytesIO(good)) as file:
        files = {name: file.read(name) for name in file.namelist()}
    record = json.loads(files["run.json"])
    picture_name = next(name for name in files if name.startswith("pictures/"))
    wrong: dict[str, list[object]] = {
        "run": [None, 3, "x" * 100, []],
        "title": [None, 3, "x" * 400, {}, "half a letter \ud800"],
        "state": [None, "running", 3, [], {}],
        "error": [3, [], "x" * 3000],
        "created": [None, "x", -1, 1e300, [], "nan", "inf"],
        "started": ["x", -1, [], 1e300],
        "scalars": [None, 3, [1], {"a": "x"}, {"a": []}, "ab"],
        "events": [None, 3, [1], [[1]], [[1, 2]], [[1, {}]], [[1, {"step": 1e999, "total": 1}]], "ab", {"a": 1}],
        "params": [None, 3, [], {}, "ab"],
        "fingerprint": [None, 3, "0" * 16],
        "format": [None, 2, "1", []],
    }
    inner: dict[str, list[object]] = {
        "base": [None, 3, "../tiny", "nobody", "\0", "a/b"],
        "method": [None, 3, "os.system", "__class__"],
        "knobs": [None, 3, {"steps": -1}, {"steps": "x"}, {"nobody": 1}, {"steps": 1e999}, [1]],
        "deltas": [None, 3, [1], "ab", ["../x"]],
        "target": [None, 3, {}, {"kind": "Seeds", "words": "x", "seeds": "ab"}, {"kind": "Nobody", "words": "x"}],
    }
    inner["target"] += [{"kind": "Seeds", "words": "x", "seeds": [value]} for value in (None, "x", -1, 2**70, [1])]
    records = {f"{key} is {str(v)[:20]}": record | {key: v} for key, values in wrong.items() for v in values}
    records |= {
        f"{key} is {str(v)[:40]}": record | {"params": record["params"] | {key: v}}
        for key, values in inner.items()
        for v in values
    }
    odd = {
        f"run whose {what}": zipped(files | {"run.json": json.dumps(told).encode()}) for what, told in records.items()
    }
    for what, content in {**pictures, "a text": b"text"}.items():
        odd[f"run whose picture is {what}"] = zipped(files | {picture_name: content})
    with_header = odd_safetensors(metadata(files["deltas/0.safetensors"]))
    return odd | {
        f"run whose delta is {w}": zipped(files | {"deltas/0.safetensors": c}) for w, c in with_header.items()
    }


def good_dataset() -> bytes:
    made, random = io.BytesIO(), np.random.default_rng(0)
    x, y = random.integers(0, 255, (20, 8, 8, 3), np.uint8), np.arange(20) % 2
    np.savez(made, x_train=x, y_train=y, x_test=x, y_test=y)
    return made.getvalue()


def odd_datasets(outside: Path, bomb: int) -> dict[str, bytes]:
    x, y = np.zeros((20, 8, 8, 3), np.uint8), np.arange(20) % 2
    good = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}

    def npz(**changed: object) -> bytes:
        made = io.BytesIO()
        np.savez(made, **{name: value for name, value in (good | changed).items() if value is not None})
        return made.getvalue()

    header = b"\x93NUMPY\x01\0" + struct.pack("<H", 118)
    huge = b"{'descr': '|u1', 'fortran_order': False, 'shape': (2000000000, 64, 64, 3), }".ljust(117) + b"\n"
    flat = huge.replace(b"2000000000, 64, 64, 3", f"{bomb},".ljust(21).encode())
    evil = io.BytesIO()
    np.save(evil, np.array([RunsCode(outside / "ran")], dtype=object), allow_pickle=True)
    whole = {f"{name}.npy": _npy(value) for name, value in good.items()}
    return {
        **{f"data without {name}": npz(**{name: None}) for name in good},
        "pictures of floats": npz(x_train=x.astype(np.float32)),
        "pictures of text": npz(x_train=np.array(["a"] * 20)),
        "pictures of one dimension": npz(x_train=x.reshape(-1)),
        "pictures of five dimensions": npz(x_train=x[None]),
        "pictures of no pixels": npz(x_train=x[:, :0, :0]),
        "pictures of two colours": npz(x_train=x[..., :2], x_test=x[..., :2]),
        "no pictures at all": npz(x_train=x[:0], y_train=y[:0]),
        "no test pictures": npz(x_test=x[:0], y_test=y[:0]),
        "a class without a picture": npz(y_train=y * 7),
        "training and test of two sizes": npz(x_test=x[..., :1]),
        "labels of text": npz(y_train=np.array(["cat"] * 20)),
        "labels that are no numbers": npz(y_train=np.full(20, np.nan)),
        "labels without end": npz(y_train=np.full(20, 2**60)),
        "labels below zero": npz(y_train=y - 5),
        "labels of test that training lacks": npz(y_test=y + 9),
        "too few labels": npz(y_train=y[:3]),
        "names of classes that are too few": npz(classes=np.array(["one"])),
        "names of classes that are numbers of pictures": npz(classes=x),
        "array that runs code": zipped({**whole, "x_train.npy": evil.getvalue()}),
        "array that claims 24 TB": zipped({**whole, "x_train.npy": header + huge + bytes(64)}),
        "array that unfolds": zip_bomb("x_train.npy", bomb, header + flat),
        "array whose header is Python": zipped({**whole, "x_train.npy": header + b"open('/')".ljust(117) + b"\n"}),
        "array whose header is deep": zipped({**whole, "x_train.npy": header + (b"(" * 110).ljust(117) + b"\n"}),
        "one bare array": _npy(x),
    }  # fmt: skip


def _npy(value: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.save(made, value)
    return made.getvalue()


def changed_header(good: bytes, change: Callable[[dict[str, str]], None]) -> bytes:
    """A good safetensors file with other words in its header; every number stays."""
    length = int.from_bytes(good[:8], "little")
    header = json.loads(good[8 : 8 + length])
    change(header["__metadata__"])
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + good[8 + length :]


def odd_deposits(good: bytes) -> dict[str, bytes]:
    """Whole deposits by their own check, which covers the numbers and not what is said of them."""
    values = (None, 3, "x", [], {}, -1, [1e999], {"a": 10**12}, "half a letter \ud800")
    odd = {}
    for part in ("deposit", "card"):
        told = json.loads(metadata(good)[part])
        for key in told:
            for value in values:
                words = json.dumps(told | {key: value})
                odd[f"{key} is {str(value)[:20]!r}"] = changed_header(good, lambda m, p=part, w=words: m.update({p: w}))
    told = json.loads(metadata(good)["deposit"])
    for size in (10**9, 10**12, -1, 0):
        shapes = {name: [size] for name in told["shapes"]}
        words = json.dumps(told | {"shapes": shapes})
        odd[f"weights of the shape {size}"] = changed_header(good, lambda m, w=words: m.update(deposit=w))
    card = json.loads(metadata(good)["card"])
    for knobs in (
        {},
        {"classes": ["two"], "split": 10**9},
        {"classes": ["two"], "split": "x"},
        {"classes": 3, "split": 1},
    ):
        words = json.dumps(card | {"knobs": knobs})
        odd[f"knobs are {str(knobs)[:40]}"] = changed_header(good, lambda m, w=words: m.update(card=w))
    return odd


def odd_vaults(good: bytes, sealed: Callable[[str], str]) -> dict[str, bytes]:
    """Whole vaults by their own seal: anybody can make one."""
    card, odd = json.loads(metadata(good)["card"]), {}
    for key in card:
        for value in (None, 3, "x", [], {}, [None], ["x"], -1, 10**12, [[1]], {"a": 1}, "half a letter \ud800"):
            words = json.dumps(card | {key: value}, sort_keys=True)
            seal = sealed(words)
            change = {"card": words, "sha256": seal}
            odd[f"{key} is {str(value)[:20]!r}"] = changed_header(good, lambda m, c=change: m.update(c))
    return odd


def odd_models(good: bytes) -> dict[str, bytes]:
    """A good model with one number that is none, and with settings of a giant or of nothing."""
    length = int.from_bytes(good[:8], "little")
    odd = {
        f"a weight is {n}": good[: 8 + length] + struct.pack("<f", n) + good[12 + length :] for n in (np.nan, np.inf)
    }
    told = json.loads(metadata(good)["base"])
    configs = ({}, {"size": 10**9}, {"size": -1}, {"size": "x"}, {"nobody": 1}, {"w_dim": 1e999}, [], 3, None)
    for architecture in ("tiny", "stylegan2", "os.system", 3, None):
        for config in configs:
            words = json.dumps(told | {"architecture": architecture, "config": config})
            name = f"a {architecture} of {str(config)[:30]}"
            odd[name] = changed_header(good, lambda m, w=words: m.update(base=w))
    return odd


def metadata(good: bytes) -> dict[str, str]:
    length = int.from_bytes(good[:8], "little")
    return json.loads(good[8 : 8 + length])["__metadata__"]


def idx(pictures: int = 40) -> bytes:
    """The form of Fashion-MNIST: a head of big-endian numbers, then bytes."""
    return struct.pack(">BBBBIII", 0, 0, 8, 3, pictures, 28, 28) + bytes(pictures * 28 * 28)


def odd_idx() -> dict[str, bytes]:
    heads = {
        "of 4,000 million pictures": struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 28, 28),
        "of 255 dimensions": struct.pack(">BBBB", 0, 0, 8, 255),
        "of an unknown type": struct.pack(">BBBBI", 0, 0, 99, 1, 4),
        "of no dimension": struct.pack(">BBBB", 0, 0, 8, 0),
        "of other sizes": struct.pack(">BBBBIII", 0, 0, 8, 3, 40, 5, 5) + bytes(1000),
        "of floats": struct.pack(">BBBBIII", 0, 0, 13, 3, 40, 28, 28) + bytes(4 * 40 * 28 * 28),
    }
    return {f"pictures {what}": content + bytes(64) for what, content in heads.items()}


def odd_lists() -> dict[str, bytes]:
    """Lists of a published folder of birds, which name their files."""
    names = ("../../../../etc/passwd", "/etc/passwd", "../../outside/x.png", "001.Crow/nobody.png", "x", "", "a b c")
    odd = {f"list that names {name!r}": f"1 {name}\n2 {name}\n".encode() for name in names}
    return odd | {"list of half a line": b"1", "list of the same number": b"1 001.Crow/a.png\n" * 9}
