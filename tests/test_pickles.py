"""A pickle is only read: whatever it asks for, nothing is imported, called, opened or written."""

import io
import mmap
import os
import pickle
import pickletools
import resource
import struct
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import foreign
from engine.core.errors import DamagedFile, UserError
from engine.pickles import MAX_STEPS, MAX_TEXT, Global, Span, UnsafeFile, read
from tests.published import CANARY, SETTINGS, EasyDict, Network, checkpoint, dump, network, small, torch_save, tree

WATCHED = ("import", "exec", "compile", "open", "os.", "subprocess.", "socket.", "ctypes.", "pickle.", "shutil.")
watching: list[list[str]] = []


def watch(event: str, args: tuple) -> None:
    if watching and event.startswith(WATCHED):
        watching[-1].append(f"{event} {args}"[:200])


sys.addaudithook(watch)
"".encode("cp437")  # the codec of a zip's names, so that it need not be imported while watching


@contextmanager
def nothing_happens():
    """The interpreter's own audit hook sees every import, exec, file, process and socket."""
    watching.append([])
    try:
        yield
    finally:
        seen = watching.pop()
    assert not seen


def describe(data: bytes) -> dict:
    with mmap.mmap(-1, len(data)) as mapped:
        mapped[:] = data
        return foreign.describe(mapped)


def refusal(data: bytes) -> UserError:
    with nothing_happens(), pytest.raises(UserError) as caught:
        describe(data)
    assert len(str(caught.value)) < 400
    return caught.value


class Calls:
    """Pickles as a call of `function`."""

    def __init__(self, function, *args) -> None:
        self.call = function, args

    def __reduce__(self):
        return self.call


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


CALL = b"\x80\x04" + text("os") + text("system") + b"\x93" + text("touch /tmp/owned") + b"\x85R."
RUNS_CODE = {
    "os.system": CALL,
    "os.system by GLOBAL": b"\x80\x02cos\nsystem\n" + text("id") + b"\x85R.",
    "eval": pickle.dumps(Calls(eval, "1+1")),
    "exec of Python 2": b"\x80\x02c__builtin__\neval\n" + text("1") + b"\x85R.",
    "__import__": pickle.dumps(Calls(__import__, "os")),
    "subprocess": pickle.dumps(Calls(subprocess.Popen, ["id"])),
    "getattr chain": pickle.dumps(Calls(getattr, Calls(__import__, "os"), "system")),
    "dotted name": b"\x80\x04" + text("training.x") + text("y.__globals__") + b"\x93.",
    "a tool of torch": b"\x80\x04" + text("torch.hub") + text("load") + b"\x93.",
    "a tool of numpy": b"\x80\x04" + text("numpy.testing") + text("runstring") + b"\x93.",
    "a function of a stranger": b"\x80\x04" + text("training.tricks") + text("go") + b"\x93)R.",
    "a class of the standard library": b"\x80\x04" + text("subprocess") + text("Popen") + b"\x93)\x81.",
    "functools.partial": pickle.dumps(Calls(__import__("functools").partial, print)),
    "copyreg": b"\x80\x02ccopyreg\n_reconstructor\n.",
    "a call of what was called": b"\x80\x04ccollections\nOrderedDict\n)R)R.",
    "a reference outside": b"\x80\x04" + text("x") + b"Q.",
}


@pytest.mark.parametrize("name", RUNS_CODE)
def test_a_file_that_would_run_code_is_refused_and_nothing_runs(name):
    error = refusal(RUNS_CODE[name])
    assert isinstance(error, UnsafeFile)
    assert "not opened" in str(error)
    assert "safetensors" in str(error)
    assert not Path("/tmp/owned").exists()


@pytest.mark.parametrize("place", ["augment_pipe", "training_set_kwargs", "G_ema"])
def test_one_hidden_call_spoils_an_otherwise_good_checkpoint(place):
    good = {"G_ema": network(tree(small()), SETTINGS), "augment_pipe": None, "training_set_kwargs": None}
    bad = dump(good | {place: Calls(os.system, "touch /tmp/owned")})
    assert isinstance(refusal(bad), UnsafeFile)


DAMAGED = {
    "INST": b"\x80\x02(X\x02\x00\x00\x00idios\nsystem\n.",
    "OBJ": b"\x80\x02(cos.path\njoin\no.",
    "EXT1": b"\x80\x02\x82\x01.",
    "EXT2": b"\x80\x02\x83\x01\x00.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "PERSID": b"Pid\n.",
    "NEWOBJ_EX": b"\x80\x04ctraining.x\nY\n)}\x92.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "BYTEARRAY8": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",
    "LONG4": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b".",
    "text opcodes": b"I" + b"9" * 100_000 + b"\n.",
    "bytes longer than the file": b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"x.",
    "text longer than the file": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
    "name without end": b"\x80\x02c" + b"a" * 1000,
    "text that is no text": b"\x80\x04\x8c\x02\xff\xfe.",
    "surrogate": b"\x80\x04\x8c\x03\xed\xa0\x80.",
    "state for a dictionary": b"\x80\x04}}b.",
    "state for a name": b"\x80\x04ctraining.x\nY\n}b.",
    "items for a tuple": b"\x80\x04)(K\x01K\x02u.",
    "odd items": b"\x80\x04}(K\x01u.",
    "append to a dictionary": b"\x80\x04}K\x01a.",
    "set of sets": b"\x80\x04\x8f(\x8f\x90.",
    "name of numbers": b"\x80\x04K\x01K\x02\x93.",
    "empty stack": b"\x80\x04.",
    "pop too much": b"\x80\x0400.",
    "no mark": b"\x80\x04K\x01t.",
    "tuple below the mark": b"\x80\x04K\x01(\x85.",
    "memo never written": b"\x80\x04h\x07.",
    "far memo": b"\x80\x04K\x01r\xff\xff\xff\xff0j\xfe\xff\xff\xff.",
    "only a number": b"\x80\x04K\x01.",
    "an empty dictionary": b"\x80\x04}.",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_no_checkpoint_needs_is_refused(name):
    refusal(DAMAGED[name])


def test_every_cut_of_a_good_file_is_refused():
    whole = checkpoint()
    describe(whole)
    for length in range(1, len(whole), 41):
        refusal(whole[:length])


BOMBS = {
    "nesting": b"\x80\x04" + b"]" * 140_000 + b"a" * 139_999 + b".",
    "tuples in tuples": b"\x80\x04)" + b"\x85" * 290_000 + b".",
    "endless steps": b"\x80\x04" + b"N0" * (MAX_STEPS // 2 + 1) + b".",
    "endless sets": b"\x80\x04" + b"\x8f" * (MAX_STEPS + 1) + b".",
    "marks": b"\x80\x04" + b"(" * 290_000 + b".",
    "doubling as a key": b"\x80\x04}K\x01\x85" + b"q\x01h\x01\x86" * 200 + b"K\x01s.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_bounded_memory(name):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refusal(BOMBS[name])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10  # kB


def test_a_text_of_many_megabytes_is_refused():
    assert "text of" in str(refusal(b"\x80\x04" + text("x" * (MAX_TEXT + 1)) + b"."))


def doubling(levels: int) -> list:
    value: list = [1]
    for _ in range(levels):
        value = [value, value]
    return value


def test_settings_that_unfold_without_end_are_refused():
    for twisted in (doubling(60), doubling(14)):
        refusal(dump({"G_ema": network(tree(small()), SETTINGS | {"mapping_kwargs": twisted})}))
    loop: dict = {}
    loop["again"] = loop
    refusal(dump({"G_ema": network(tree(small()), loop)}))


def test_networks_that_contain_themselves_are_refused():
    child: dict = {"_modules": {}}
    for _ in range(40):  # 2^40 paths
        child = {"_modules": {"a": Network("Layer", child), "b": Network("Layer", child)}}
    refusal(dump({"G_ema": Network("Generator", child)}))
    loop = EasyDict()
    loop["_modules"] = {"a": torch.nn.Module()}
    loop["_modules"]["a"].__dict__["_modules"] = loop["_modules"]
    refusal(dump({"G_ema": Network("Generator", loop)}))


def test_the_old_tensorflow_kind_is_named():
    for form in ((1, 2, 3), (EasyDict(), EasyDict(), EasyDict())):
        assert "legacy.py" in str(refusal(dump(form)))


class Tensor:
    """A tensor with any claim about itself."""

    def __init__(self, offset=0, shape=(2, 3), stride=(3, 1), storage=None) -> None:
        stored = torch.arange(6.0).untyped_storage()
        self.parts = storage or torch.storage.TypedStorage(wrap_storage=stored, dtype=torch.float32, _internal=True)
        self.claim = offset, shape, stride

    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, (self.parts, *self.claim, False, {})


LIES = {
    "too large": {"shape": (2, 4), "stride": (4, 1)},
    "beyond by its stride": {"stride": (30, 1)},
    "beyond by its offset": {"offset": 1},
    "offset only": {"offset": 7, "shape": (0,), "stride": (1,)},
    "negative offset": {"offset": -1},
    "negative stride": {"stride": (-3, 1)},
    "negative side": {"shape": (-2, 3)},
    "repeated numbers": {"shape": (1 << 40, 3), "stride": (0, 1)},
    "uneven": {"shape": (2, 3), "stride": (1,)},
    "no numbers": {"shape": (2.0, 3), "stride": (3, 1)},
    "many axes": {"shape": (1,) * 9, "stride": (1,) * 9},
    "no storage": {"storage": "x"},
    "a borrowed storage": {"storage": Calls(set, [1])},
}


@pytest.mark.parametrize("name", LIES)
def test_a_tensor_that_lies_about_itself_is_refused(name):
    assert describe(dump({"G_ema": {"a": Tensor()}}))["tensors"]["a"].shape == (2, 3)
    assert isinstance(refusal(dump({"G_ema": {"a": Tensor(**LIES[name])}})), DamagedFile)


def test_a_storage_that_lies_about_its_size_is_refused():
    whole = dump({"G_ema": {"a": Tensor()}})
    count = whole.index(struct.pack("<q", 6) + struct.pack("<f", 0.0))
    refusal(whole[:count] + struct.pack("<q", 2**60) + whole[count + 8 :])
    refusal(whole.replace(b"little_endian", b"small_endian_"))
    refusal(whole.replace(b"FloatStorage", b"WrongStorage"))


def test_numbers_of_odd_kinds_are_left_out_or_refused():
    found = describe(dump({"G_ema": network(tree(small()), SETTINGS, odd=np.array([{}], object), side=np.float64(7))}))
    assert found["attributes"]["side"] == 7.0
    assert "odd" not in found["attributes"]
    refusal(dump({"G_ema": network(tree(small()), SETTINGS | {"z_dim": np.array([None], object)})}))


@pytest.mark.parametrize("archive", [True, False])
def test_torch_files_that_were_tampered_with_are_refused(archive):
    whole = torch_save({"a": torch.arange(6.0), "b": torch.ones(2, dtype=torch.int64)}, archive=archive)
    assert set(describe(whole)["tensors"]) == {"a", "b"}
    for length in range(1, len(whole), 37):
        refusal(whole[:length])
    assert isinstance(refusal(torch_save({"a": Calls(os.system, "id")}, archive=archive)), UnsafeFile)


def test_a_packed_archive_is_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}." + b"\0" * 1_000_000)
    assert "as torch.save writes it" in str(refusal(file.getvalue()))
    refusal(file.getvalue().replace(b"data.pkl", b"data.txt"))


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_every_protocol_of_python_3_is_read_alike(protocol):
    found = describe(checkpoint(protocol))
    assert found["kwargs"] == SETTINGS
    assert set(found["tensors"]) == set(small())


def test_byte_strings_stay_in_the_file():
    value, end = read(b"\x80\x04\x8e" + struct.pack("<Q", 4) + b"abcd.rest")
    assert value == Span(11, 15)
    assert end == 16


def test_a_name_is_only_a_name():
    value, _ = read(b"\x80\x04ctraining.triplane\nOSGDecoder\n.")
    assert value == Global("training.triplane", "OSGDecoder")


# Fuzzing: half mutations of a good file, half programs of random opcodes ------------------------------------------

STATE = {key: value.detach() for key, value in small().items()}
GOOD = [checkpoint(), torch_save(STATE), torch_save(STATE, archive=False)]
OPCODES = [op.code.encode("latin1") for op in pickletools.opcodes]
NAMES = [
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"ccollections\nOrderedDict\n",
    b"ctraining.x\nY\n",
    b"cbuiltins\nset\n",
]
NAMES += [b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch.storage\n_load_from_bytes\n", b"cnumpy\ndtype\n"]
NAMES += [b"ctorch_utils.persistence\n_reconstruct_persistent_obj\n", text("G_ema"), text("state"), text("_modules")]
NAMES += [text("_parameters"), b"K\x01", b"N", b"}", b"]", b")", b"(", b"\x85", b"\x86", b"\x94", b"h\x00", b"R", b"s"]
edits = st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=6))
programs = st.lists(st.one_of(st.sampled_from(OPCODES), st.sampled_from(NAMES), st.binary(max_size=4)), max_size=60)
fuzz = settings(max_examples=1000, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def survives(data: bytes) -> None:
    with nothing_happens():
        try:
            describe(data)
        except UserError as error:
            assert CANARY not in str(error)


@fuzz
@given(st.sampled_from(GOOD), st.lists(edits, min_size=1, max_size=4))
def test_no_mutation_of_a_good_file_does_harm(data, changes):
    for place, length, new in changes:
        at = int(place * len(data))
        data = data[:at] + new + data[at + length :]
    survives(data)


@fuzz
@given(programs, st.booleans())
def test_no_program_of_opcodes_does_harm(parts, as_generator):
    program = b"".join(parts)
    survives(b"\x80\x04}" + text("G_ema") + program + b"s." if as_generator else b"\x80\x04" + program + b".")
