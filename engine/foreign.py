"""What a foreign checkpoint holds: settings, and where each tensor of its generator lies. Needs no torch.

`describe` runs in a process of its own (`python -m engine.foreign FILE`) with little memory, little time, and no right
to write a file or start a program. It answers in JSON on its standard output; the importer believes none of it
unchecked.
"""

import contextlib
import hashlib
import json
import mmap
import struct
import sys
from dataclasses import astuple
from pathlib import Path

from engine.core.errors import DamagedFile, UserError
from engine.pickles import Call, Global, Span, is_persistent_class, read
from engine.storages import MAGIC, Place, Storages, is_call

SECONDS = 60
MEMORY = 1 << 30  # beside the file itself
MAX_DEPTH, MAX_MODULES, MAX_TENSORS, MAX_KEY = 16, 10_000, 10_000, 200
MAX_VALUES, MAX_TEXT = 10_000, 4096
GENERATORS = ("G_ema", "g_ema", "state_dict")  # the moving average is the one to use; never the raw G
NUMBERS = {"f8": "d", "f4": "f", "f2": "e", "b1": "?"}
NUMBERS |= {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
TENSORFLOW = (
    "is a StyleGAN checkpoint of the old TensorFlow kind. Convert it with `legacy.py` of the published StyleGAN3 "
    "code and import what that writes"
)
_NOT_PLAIN = object()


def describe(data: mmap.mmap) -> dict:
    """The generator in a mapped file: how it was made, attributes, sha256 of its code, places of its tensors."""
    storages = Storages(data)
    root = _generator(_load(storages), storages)
    state, _ = _module(root)
    if state is None:
        return {"args": [], "kwargs": {}, "attributes": {}, "code": {}, "tensors": _flat(root, storages)}
    settings = [state.get(name, default) for name, default in (("_init_args", ()), ("_init_kwargs", {}))]
    args, kwargs = (_Plain(data, strict=True).value(value) for value in settings)
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise DamagedFile("does not say how its generator was made: fetch it again")
    public = {key: value for key, value in state.items() if not str(key).startswith("_")}
    code: dict[str, str] = {}
    tensors = _walk(root, storages, code)
    attributes = _Plain(data).value(public)
    return {"args": args, "kwargs": kwargs, "attributes": attributes, "code": code, "tensors": tensors}


def _load(storages: Storages) -> object:
    data = storages.data
    if bytes(data[:4]) == b"PK\3\4":
        return storages.archive()
    value, _ = read(data)
    return storages.old_file() if value == MAGIC else value


def _generator(value: object, storages: Storages) -> object:
    if isinstance(value, tuple) and len(value) == 3:
        raise UserError(TENSORFLOW)
    if _module(value)[0] is not None:
        return value
    held = _dictionary(value)
    if held is None:
        raise DamagedFile("holds no generator, but something else; choose a StyleGAN2, StyleGAN3 or EG3D checkpoint")
    for key in GENERATORS:
        if key in held:
            return held[key]
    if any(storages.tensor(entry) for entry in held.values()):
        return value
    names = ", ".join(str(key)[:30] for key in list(held)[:6])
    raise DamagedFile(f"holds no G_ema but: {names or 'nothing'}. Choose the checkpoint of a generator")


def _dictionary(value: object) -> dict | None:
    if isinstance(value, dict):
        return value
    return value.items if is_call(value, "OrderedDict", "EasyDict") else None


def _module(value: object) -> tuple[dict | None, dict]:
    """State and description of a network: of a class that carries its source, or of an ordinary one."""
    if not isinstance(value, Call):
        return None, {}
    if not is_persistent_class(value.function):
        state = value.state if isinstance(value.state, dict) and "_modules" in value.state else None
        return state, {}
    meta = _dictionary(value.args[0]) if len(value.args) == 1 else None
    state = _dictionary((meta or {}).get("state"))
    if state is None:
        raise DamagedFile("holds a network without its state: fetch it again")
    return state, meta


def _walk(root: object, storages: Storages, code: dict[str, str]) -> dict[str, Place]:
    """Parameters and persistent buffers under the names of a state_dict; notes the sha256 of each source met."""
    tensors: dict[str, Place] = {}
    waiting = [("", root)]
    for _ in range(MAX_MODULES):
        if not waiting:
            return tensors
        prefix, module = waiting.pop()
        state, meta = _module(module)
        if state is None:
            raise DamagedFile(f"has no network at {prefix[:80]!r}: fetch it again")
        if isinstance(meta.get("module_src"), str):
            code[str(meta.get("class_name"))[:80]] = hashlib.sha256(meta["module_src"].encode()).hexdigest()
        hidden = _members(state.get("_non_persistent_buffers_set"))
        for group in ("_parameters", "_buffers"):
            for name, value in (_dictionary(state.get(group)) or {}).items():
                if value is not None and name not in hidden:
                    _keep(tensors, f"{prefix}{name}", value, storages)
        for name, child in (_dictionary(state.get("_modules")) or {}).items():
            if child is not None:
                waiting.append((_short(f"{prefix}{name}."), child))
    raise DamagedFile(f"has more than {MAX_MODULES:,} layers, which no generator has")


def _flat(root: object, storages: Storages) -> dict[str, Place]:
    tensors: dict[str, Place] = {}
    held = _dictionary(root)
    if held is None:
        raise DamagedFile("holds a G_ema that is neither a network nor its weights: fetch it again")
    for name, value in held.items():
        _keep(tensors, str(name), value, storages)
    return tensors


def _keep(tensors: dict[str, Place], name: str, value: object, storages: Storages) -> None:
    if name in tensors or len(tensors) >= MAX_TENSORS:
        raise DamagedFile(f"names {name[:80]!r} twice, or holds more tensors than any generator: fetch it again")
    place = storages.tensor(value)
    if place is None:
        raise DamagedFile(f"has no tensor where {name[:80]!r} should be: fetch it again")
    tensors[_short(name)] = place


def _short(name: str) -> str:
    if len(name) > MAX_KEY:
        raise DamagedFile(f"names a layer with more than {MAX_KEY} letters, which no generator has")
    return name


def _members(value: object) -> set:
    if is_call(value, "set") and len(value.args) == 1 and isinstance(value.args[0], list):
        value = {item for item in value.args[0] if isinstance(item, str)}
    return value if isinstance(value, set) else set()


class _Plain:
    """Turns records into what JSON can hold; a budget keeps a small file from unfolding into a large answer."""

    def __init__(self, data, *, strict: bool = False) -> None:
        self.data, self.left, self.strict = data, MAX_VALUES, strict

    def value(self, value: object, depth: int = 0) -> object:
        self.left -= 1
        if self.left < 0 or depth > MAX_DEPTH:
            raise DamagedFile(f"has more than {MAX_VALUES:,} settings, which no generator has")
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return value if len(value) <= MAX_TEXT else self.left_out()
        held = _dictionary(value)
        if held is not None:
            inside = {str(key): self.value(item, depth + 1) for key, item in held.items()}
            return {key: item for key, item in inside.items() if item is not _NOT_PLAIN}
        if isinstance(value, (list, tuple)):
            inside = [self.value(item, depth + 1) for item in value]
            return inside if _NOT_PLAIN not in inside else _NOT_PLAIN
        return self.numbers(value)

    def left_out(self) -> object:
        if self.strict:
            raise DamagedFile("was made with a setting that is no number, text or list, which is not supported")
        return _NOT_PLAIN

    def numbers(self, value: object) -> object:
        """A NumPy scalar or a short vector."""
        match value:
            case Call(function=Global(name="scalar"), args=(dtype, Span() as span)):
                found = self.unpack(dtype, span)
                return found[0] if len(found) == 1 else self.left_out()
            case Call(function=Global(name="_reconstruct"), state=(_, (int(),), dtype, _, Span() as span)):
                return self.unpack(dtype, span) or self.left_out()
        return self.left_out()

    def unpack(self, dtype: object, span: Span) -> list:
        match dtype:
            case Call(function=Global(name="dtype"), args=(str(kind), *_), state=(_, "<" | "|", *_)) if kind in NUMBERS:
                count, rest = divmod(len(span), int(kind[1]))
                if not rest and count <= 64:
                    return list(struct.unpack(f"<{count}{NUMBERS[kind]}", self.data[span.start : span.stop]))
        return []


def _limit_this_process(file_bytes: int) -> None:
    """Where the system has such limits: no written file, no new program, bounded time and memory."""
    try:
        import resource
    except ImportError:  # not on Windows; the reader's own bounds remain
        return
    limits = {"RLIMIT_CPU": SECONDS, "RLIMIT_AS": MEMORY + file_bytes, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0}
    for name, limit in (limits | {"RLIMIT_NPROC": 0}).items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (limit, limit))


def main(path: Path) -> None:
    _limit_this_process(path.stat().st_size)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            answer = describe(data)
        answer["tensors"] = {name: astuple(place) for name, place in answer["tensors"].items()}
    except UserError as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    except MemoryError:
        answer = {
            "error": "DamagedFile",
            "text": "needs far more memory than its size: it is no generator's checkpoint",
        }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
