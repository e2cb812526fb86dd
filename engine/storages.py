"""Where in a file torch put each tensor's numbers: in the old stream, in the zip archive, or nested in a pickle."""

import mmap
import struct
import zipfile
from dataclasses import dataclass

from engine.core.errors import DamagedFile
from engine.pickles import CUT_OFF, DTYPES, STORAGES, Call, Global, Persistent, Span, read

MAGIC = 0x1950A86A20F9469CFC6C  # opens every stream of torch.save before the zip archive
ITEM = dict(zip(STORAGES, (4, 8, 2, 2, 8, 4, 2, 1, 1, 1), strict=True))
DTYPE = dict(zip(STORAGES, DTYPES, strict=True))
MAX_DIMENSIONS = 8
WRONG = "holds a tensor that does not fit its own numbers: fetch it again"


@dataclass(frozen=True, slots=True)
class Storage:
    """`count` numbers of one kind, from byte `start`."""

    kind: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor that was not read: its dtype, the byte of its first number, its shape, and its strides in numbers."""

    dtype: str
    start: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Storages:
    """The storages of one file, found once each."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.by_key: dict[str, Storage] = {}  # of an archive or an old stream
        self.by_span: dict[Span, Storage] = {}  # of byte strings nested in a pickle

    def archive(self) -> object:
        """Reads a zip archive of torch.save."""
        try:
            with zipfile.ZipFile(self.data) as archive:
                entries = {entry.filename: entry for entry in archive.infolist()}
        except (
            zipfile.BadZipFile,
            struct.error,
            UnicodeDecodeError,
            NotImplementedError,
            OSError,
            ValueError,
        ) as error:
            raise DamagedFile("is not a whole zip archive of torch.save: fetch it again") from error
        root = next((name.removesuffix("data.pkl") for name in entries if name.endswith("data.pkl")), None)
        if root is None:
            raise DamagedFile("is a zip archive, but not one of torch.save")
        order = entries.get(f"{root}byteorder")
        if order and self.bytes(self.entry(order)) != b"little":
            raise DamagedFile("was written on a big-endian machine, which is not supported")
        whole, refs = self.entry(entries[f"{root}data.pkl"]), []
        value, _ = read(self.data, whole.start, whole.stop, refs=refs)
        for kind, key, count in map(_reference, refs):
            name = f"{root}data/{key}"
            if name not in entries:
                raise DamagedFile(CUT_OFF)
            span = self.entry(entries[name])
            if count * ITEM[kind] > len(span):
                raise DamagedFile(WRONG)
            self.by_key[key] = Storage(kind, span.start, count)
        return value

    def entry(self, entry: zipfile.ZipInfo) -> Span:
        """The bytes of one stored entry; behind its local header of 30 bytes stand its name and a filling."""
        header = bytes(self.data[entry.header_offset : entry.header_offset + 30])
        if entry.compress_type != zipfile.ZIP_STORED or len(header) < 30 or header[:4] != b"PK\3\4":
            raise DamagedFile("is not an archive as torch.save writes it: fetch it again")
        start = entry.header_offset + 30 + sum(struct.unpack("<HH", header[26:30]))
        if start + entry.file_size > len(self.data):
            raise DamagedFile(CUT_OFF)
        return Span(start, start + entry.file_size)

    def bytes(self, span: Span) -> bytes:
        return bytes(self.data[span.start : span.stop])

    def stream(self, start: int, stop: int) -> tuple[object, dict[str, Storage]]:
        """Reads the old stream of torch.save: magic, protocol, machine, object, keys, then every storage."""
        magic, at = read(self.data, start, stop)
        _, at = read(self.data, at, stop)
        machine, at = read(self.data, at, stop)
        if magic != MAGIC or not isinstance(machine, dict) or machine.get("little_endian") is not True:
            raise DamagedFile("holds tensors in a form that torch.save does not write: fetch it again")
        refs: list[Persistent] = []
        value, at = read(self.data, at, stop, refs=refs)
        keys, at = read(self.data, at, stop)
        known = {key: (kind, count) for kind, key, count in map(_reference, refs)}
        found = {}
        for key in keys if isinstance(keys, list) else ():
            if not isinstance(key, str) or key not in known or at + 8 > stop:
                raise DamagedFile(CUT_OFF)
            kind, count = known[key]
            (written,) = struct.unpack("<q", self.data[at : at + 8])
            if written != count or at + 8 + count * ITEM[kind] > stop:
                raise DamagedFile(CUT_OFF)
            found[key] = Storage(kind, at + 8, count)
            at += 8 + count * ITEM[kind]
        return value, found

    def old_file(self) -> object:
        value, self.by_key = self.stream(0, len(self.data))
        return value

    def storage(self, value: object) -> Storage:
        """The storage that a tensor names: by its key, or as a byte string with a stream of its own."""
        if isinstance(value, Persistent):
            key = _reference(value)[1]
            if key in self.by_key:
                return self.by_key[key]
        elif is_call(value, "_load_from_bytes") and len(value.args) == 1 and isinstance(value.args[0], Span):
            span = value.args[0]
            if span not in self.by_span:
                inner, found = self.stream(span.start, span.stop)
                key = _reference(inner)[1] if isinstance(inner, Persistent) else ""
                if key not in found:
                    raise DamagedFile(WRONG)
                self.by_span[span] = found[key]
            return self.by_span[span]
        raise DamagedFile(WRONG)

    def tensor(self, value: object) -> Place | None:
        """The place of a tensor or parameter; None if `value` is neither."""
        for _ in range(3):  # a parameter around a tensor with attributes around a tensor
            if is_call(value, "_rebuild_parameter", "_rebuild_parameter_with_state") and value.args:
                value = value.args[0]
            elif is_call(value, "_rebuild_from_type_v2") and len(value.args) == 4:
                function, _, args, _ = value.args
                if not isinstance(function, Global) or not isinstance(args, tuple):
                    raise DamagedFile(WRONG)
                value = Call(function, args)
        if not is_call(value, "_rebuild_tensor_v2"):
            return None
        if len(value.args) < 4:
            raise DamagedFile(WRONG)
        source, offset, shape, stride = value.args[:4]
        return _placed(self.storage(source), offset, shape, stride)


def is_call(value: object, *names: str) -> bool:
    return isinstance(value, Call) and value.function.name in names


def _reference(value: Persistent) -> tuple[str, str, int]:
    """("storage", torch.FloatStorage, key, device, count, view): kind, key and count; views are refused."""
    match value.id:
        case ("storage", Global(module="torch", name=name), str(key), str(), int(count), *view):
            kind = name.removesuffix("Storage")
            if kind in ITEM and count >= 0 and view in ([], [None]):
                return kind, key, count
    raise DamagedFile("refers to a kind of storage that no published checkpoint has: fetch it again")


def _placed(storage: Storage, offset: object, shape: object, stride: object) -> Place:
    """Every number must lie in the storage, and none may be repeated, so a tensor is never larger than the file."""
    lengths = isinstance(shape, tuple) and isinstance(stride, tuple) and len(shape) == len(stride) <= MAX_DIMENSIONS
    if not lengths or not all(type(n) is int and n >= 0 for n in (offset, *shape, *stride)):
        raise DamagedFile(WRONG)
    numbers, last = 1, offset
    for size, step in zip(shape, stride, strict=True):
        numbers, last = numbers * size, last + (size - 1) * step
    if numbers > storage.count or offset > storage.count or (numbers and last >= storage.count):
        raise DamagedFile(WRONG)
    return Place(DTYPE[storage.kind], storage.start + offset * ITEM[storage.kind], shape, stride)
