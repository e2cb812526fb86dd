"""Reads a pickle as data. A global is only a name, a call only a record: nothing is imported and nothing is run.

It is an interpreter of its own rather than a restricted `pickle.Unpickler`, because then there is nothing to restrict,
and because byte strings stay where they are: a `Span` says where in the file they lie, so a 360 MB checkpoint costs no
memory here and its tensors can be read, or replaced, in place. Only the opcodes that Python 3 writes are known.
"""

import struct
import sys
from dataclasses import dataclass, field

from engine.core.errors import DamagedFile, UserError

MAX_STEPS = 300_000  # published checkpoints take 15 to 60 thousand
MAX_TEXT = 1 << 22  # the longest string is a module's source, about 100 kB
CUT_OFF = "ends too early: the download was cut off, so fetch it again"
INSTEAD = "Fetch it again from its authors, or save only its weights as .safetensors in a sandbox"


class UnsafeFile(UserError):
    """A file that would run foreign code in a program that trusted it."""


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a class or function. Never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"[:80]


@dataclass(eq=False, slots=True)
class Call:
    """`function(*args)` that was not called, with the state and the items it would have been given."""

    function: Global
    args: tuple
    state: object = None
    items: dict = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """A byte string, by its place in the file."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(eq=False, slots=True)
class Persistent:
    """A reference to something outside the stream; torch writes its storages so."""

    id: object


STORAGES = "Float Double Half BFloat16 Long Int Short Char Byte Bool".split()
DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()  # in the same order
_CALLED = {  # what these files call, and therefore all that a call may name
    "builtins": "set",
    "collections": "OrderedDict",
    "dnnlib.util": "EasyDict",
    "numpy": "dtype",
    "numpy.core.multiarray": "scalar _reconstruct",
    "numpy._core.multiarray": "scalar _reconstruct",
    "torch": "Size device",
    "torch._utils": "_rebuild_parameter _rebuild_parameter_with_state _rebuild_tensor_v2",
    "torch._tensor": "_rebuild_from_type_v2",
    "torch.storage": "_load_from_bytes",
}
CALLED = {(module, name) for module, names in _CALLED.items() for name in names.split()}
NAMED = CALLED | {("numpy", "ndarray"), ("torch", "Tensor"), ("torch.nn.parameter", "Parameter")}
NAMED |= {("torch", name) for name in (*DTYPES, *(f"{kind}Storage" for kind in STORAGES))}
_POWERFUL = sys.stdlib_module_names | {"__builtin__", "commands", "torch", "numpy", "pip", "setuptools"}


def read(data, start: int = 0, end: int | None = None, *, refs: list | None = None) -> tuple[object, int]:
    """The pickle that starts at `start` of bytes or a mapped file, and the place behind it.

    References to the outside are refused, or collected in `refs`.
    """
    machine = _Machine(data, start, len(data) if end is None else end, refs)
    return machine.run(), machine.at


def is_persistent_class(function: Global) -> bool:
    """The one function by which the published networks pickle themselves, source text and all."""
    return function.name == "_reconstruct_persistent_obj" and function.module.split(".")[-1] == "persistence"


def unsafe(function: Global) -> UnsafeFile:
    return UnsafeFile(f"asks Python to run {function} when it is opened, so it was not opened. {INSTEAD}")


def _global(module: str, name: str) -> Global:
    known = (module, name) in NAMED or (module.startswith("torch.nn.modules.") and "." not in name)
    found = Global(module, name)
    if not known and (module.partition(".")[0] in _POWERFUL or "." in name):
        raise unsafe(found)
    return found


class _Machine:
    def __init__(self, data, at: int, end: int, refs: list | None) -> None:
        self.data, self.at, self.end, self.refs = data, at, end, refs
        self.stack: list = []
        self.marked: list[list] = []  # a mark starts a new stack, so nothing can be popped from below it
        self.memo: dict[int, object] = {}

    def run(self) -> object:
        try:
            for _ in range(MAX_STEPS):
                if self.at >= self.end:
                    raise DamagedFile(CUT_OFF)
                code = self.data[self.at]
                self.at += 1
                if code == _STOP:
                    return self.stack.pop()
                if code not in _STEPS:
                    raise DamagedFile(f"uses pickle opcode {code:#04x}, which no published checkpoint has. {INSTEAD}")
                step, *argument = _STEPS[code]
                step(self, *argument)
        except (IndexError, KeyError) as error:  # an empty stack, a memo entry never written
            raise DamagedFile("is not a whole pickle: fetch it again") from error
        raise DamagedFile(f"needs more than {MAX_STEPS:,} steps to read; a generator's checkpoint needs far fewer")

    def skip(self, count: int) -> Span:
        if count > self.end - self.at:
            raise DamagedFile(CUT_OFF)
        self.at += count
        return Span(self.at - count, self.at)

    def take(self, count: int) -> bytes:
        span = self.skip(count)
        return bytes(self.data[span.start : span.stop])

    def number(self, form: str) -> int | float:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, count: int) -> str:
        if count > min(MAX_TEXT, self.end - self.at):
            raise DamagedFile(f"declares a text of {count:,} characters: it is damaged or no generator's checkpoint")
        try:
            return self.take(count).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DamagedFile("holds a text that is not UTF-8: fetch it again") from error

    def line(self) -> str:
        length = bytes(self.data[self.at : min(self.at + 256, self.end)]).find(b"\n")
        if length < 0:
            raise DamagedFile("holds a name that does not end: fetch it again")
        name = self.text(length)
        self.at += 1
        return name

    def push_number(self, form: str) -> None:
        self.stack.append(self.number(form))

    def push_long(self) -> None:
        self.stack.append(int.from_bytes(self.take(self.number("<B")), "little", signed=True))

    def push_text(self, form: str) -> None:
        self.stack.append(self.text(self.number(form)))

    def push_bytes(self, form: str) -> None:
        self.stack.append(self.skip(self.number(form)))

    def push_constant(self, value: object) -> None:
        self.stack.append(value)

    def push_empty(self, kind: type) -> None:
        self.stack.append(kind())

    def push_tuple(self, count: int) -> None:
        if count > len(self.stack):
            raise IndexError
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def ignore(self, form: str) -> None:
        self.number(form)

    def mark(self) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def since_mark(self) -> list:
        items, self.stack = self.stack, self.marked.pop()
        return items

    def push_marked_tuple(self) -> None:
        items = self.since_mark()
        self.stack.append(tuple(items))

    def pop(self) -> None:
        self.stack.pop()

    def memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def put(self, form: str) -> None:
        self.memo[self.number(form)] = self.stack[-1]

    def get(self, form: str) -> None:
        self.stack.append(self.memo[self.number(form)])

    def append(self, several: bool) -> None:
        items = self.since_mark() if several else [self.stack.pop()]
        if not isinstance(self.stack[-1], list):
            raise DamagedFile("appends to something that is not a list: fetch it again")
        self.stack[-1].extend(items)

    def add_items(self) -> None:
        items = self.since_mark()
        if not isinstance(self.stack[-1], set) or not all(map(_is_key, items)):
            raise DamagedFile("holds a set of something that is not text or number: fetch it again")
        self.stack[-1].update(items)

    def set_items(self, several: bool) -> None:
        items = self.since_mark() if several else [self.stack.pop(), self.stack.pop()][::-1]
        # Hashing a nested tuple can take exponential time, so keys are plain.
        target = self.stack[-1].items if isinstance(self.stack[-1], Call) else self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2 or not all(map(_is_key, items[::2])):
            raise DamagedFile("holds a dictionary with keys that are not text or number: fetch it again")
        target.update(zip(items[::2], items[1::2], strict=True))

    def push_global(self) -> None:
        module = self.line()
        self.stack.append(_global(module, self.line()))

    def push_stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise DamagedFile("names a class by something that is not text: fetch it again")
        self.stack.append(_global(module, name))

    def call(self) -> None:
        """REDUCE: only functions whose meaning we know, since no class pickles itself through others."""
        record = self.record()
        function = record.function
        if (function.module, function.name) not in CALLED and not is_persistent_class(function):
            raise unsafe(function)
        self.stack.append(record)

    def new_object(self) -> None:
        """NEWOBJ: an empty object of any class, our record whatever the class."""
        self.stack.append(self.record())

    def record(self) -> Call:
        args, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Global) or not isinstance(args, tuple):
            raise UnsafeFile(f"calls what it computed itself, so it was not opened. {INSTEAD}")
        return Call(function, args)

    def build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], Call):
            raise DamagedFile("gives a state to something that has none: fetch it again")
        self.stack[-1].state = state

    def push_persistent(self) -> None:
        if self.refs is None:
            raise UnsafeFile(f"refers to objects outside itself, so it was not opened. {INSTEAD}")
        self.stack.append(Persistent(self.stack.pop()))
        self.refs.append(self.stack[-1])


def _is_key(value: object) -> bool:
    return isinstance(value, (str, int))


def _steps() -> dict[int, tuple]:
    """Opcode to method and, where several opcodes differ only in it, its argument."""
    m = _Machine
    with_argument = [
        (m.push_number, {"J": "<i", "K": "<B", "M": "<H", "G": ">d"}),
        (m.push_text, {"\x8c": "<B", "X": "<I", "\x8d": "<Q"}),
        (m.push_bytes, {"C": "<B", "B": "<I", "\x8e": "<Q"}),
        (m.push_constant, {"N": None, "\x88": True, "\x89": False}),
        (m.push_empty, {"}": dict, "]": list, ")": tuple, "\x8f": set}),
        (m.push_tuple, {"\x85": 1, "\x86": 2, "\x87": 3}),
        (m.append, {"a": False, "e": True}),
        (m.set_items, {"s": False, "u": True}),
        (m.put, {"q": "<B", "r": "<I"}),
        (m.get, {"h": "<B", "j": "<I"}),
        (m.ignore, {"\x80": "<B", "\x95": "<Q"}),  # PROTO, FRAME
    ]
    plain = {"\x8a": m.push_long, "(": m.mark, "t": m.push_marked_tuple, "0": m.pop, "1": m.since_mark}
    plain |= {"\x94": m.memoize, "c": m.push_global, "\x93": m.push_stack_global, "R": m.call}
    plain |= {"\x90": m.add_items, "\x81": m.new_object, "b": m.build, "Q": m.push_persistent}
    steps = {ord(code): (step,) for code, step in plain.items()}
    return steps | {ord(code): (step, value) for step, table in with_argument for code, value in table.items()}


_STOP, _STEPS = ord("."), _steps()
