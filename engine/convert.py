"""Foreign weight files to plain named tensors. Nothing of a package is imported and no pickle may run code.

Each converter takes the inner files of one archive, by name, and gives the tensors under the names that our own
networks use (or, where a network's own file does the mapping, the names found in the archive).
"""

import io
import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any
from xml.parsers import expat

import numpy as np
import torch
from torch import Tensor

from engine.core.errors import DamagedFile

Files = Mapping[str, bytes]
Converter = Callable[[Files], dict[str, Tensor]]


def openvino(files: Files) -> dict[str, Tensor]:
    """Every float constant of `XNetwork.xml` + `.bin` pairs as `x/{layer id:04d}.{layer name}`, in graph order.

    The integer constants are left out: they only carry shapes and axes.
    """
    tensors = {}
    for path in sorted(files):
        if not path.endswith(".xml"):
            continue
        weights = files[str(PurePosixPath(path).with_suffix(".bin"))]
        network = PurePosixPath(path).stem.removesuffix("Network").lower()
        for layer, data in _constants(files[path]):
            if data["element_type"] != "f32":
                continue
            shape = tuple(int(side) for side in data["shape"].split(",") if side.strip())
            start, size = int(data["offset"]), int(data["size"])
            values = np.frombuffer(weights[start : start + size], "<f4").reshape(shape)
            tensors[f"{network}/{int(layer['id']):04d}.{layer['name']}"] = torch.from_numpy(values.copy())
    return tensors


def _constants(xml: bytes) -> list[tuple[dict, dict]]:
    """The attributes of each Const layer and of its data. A document type, hence any entity, is refused."""
    found: list[tuple[dict, dict]] = []
    layer: dict[str, str] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal layer
        if tag == "layer":
            layer = attributes
        elif tag == "data" and layer.get("type") == "Const":
            found.append((layer, attributes))

    def refuse(*_: Any) -> None:
        raise DamagedFile("the network's XML declares a document type; it was not read")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = start, refuse
    try:
        parser.Parse(xml, True)
    except expat.ExpatError as error:
        raise DamagedFile(f"the network's XML cannot be read ({error})") from error
    return found


def torch_state(files: Files) -> dict[str, Tensor]:
    """A state dict saved by torch, alone or under one `…state_dict` key.

    Batch counters are dropped, and so is a leading underscore of a module's name.
    """
    (content,) = files.values()
    try:
        state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise DamagedFile(f"not a file of weights alone ({str(error).splitlines()[0]})") from error
    for name, value in state.items():
        if name.endswith("state_dict"):
            state = value
            break
    kept = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    return {".".join(part.removeprefix("_") for part in name.split(".")): value for name, value in kept.items()}


class ArraysOnly(pickle.Unpickler):
    """Builds numpy arrays inside dicts and lists; any other name in the pickle is refused before it is looked up."""

    allowed = frozenset({("multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")})

    def find_class(self, module: str, name: str) -> Any:
        short = "multiarray" if module in ("numpy.core.multiarray", "numpy._core.multiarray") else module
        if (short, name) not in self.allowed:
            raise DamagedFile(f"the pickle asks for {module}.{name}, which is not an array; it was not opened")
        return np._core.multiarray._reconstruct if short == "multiarray" else getattr(np, name)


def lpips_trunk(files: Files) -> dict[str, Tensor]:
    """The convolutions of a flax trunk as `conv{i}.weight`, `conv{i}.bias`; kernels HWIO to OIHW."""
    (content,) = files.values()
    trees = ArraysOnly(io.BytesIO(content)).load()
    (trunk,) = (tree for name, tree in trees.items() if not name.startswith("NetLin"))
    tensors = {}
    for name, layer in trunk.items():
        index = int(name.removeprefix("Conv_"))
        kernel = np.ascontiguousarray(np.asarray(layer["kernel"], np.float32).transpose(3, 2, 0, 1))
        tensors[f"conv{index}.weight"] = torch.from_numpy(kernel)
        tensors[f"conv{index}.bias"] = torch.from_numpy(np.asarray(layer["bias"], np.float32).copy())
    return tensors


def tfjs(files: Files) -> dict[str, Tensor]:
    """A tensorflow.js manifest and its .bin: arrays follow each other; quantised ones are uint8 * scale + min."""
    (manifest,) = (content for path, content in files.items() if path.endswith(".json"))
    (weights,) = (content for path, content in files.items() if path.endswith(".bin"))
    entries = [entry for group in json.loads(manifest) for entry in group["weights"]]
    separable = {entry["name"].removesuffix("/pointwise_filter") for entry in entries}
    tensors, start = {}, 0
    for entry in entries:
        count, quantised = int(np.prod(entry["shape"], dtype=int)), entry.get("quantization")
        kind = np.dtype(quantised["dtype"] if quantised else entry["dtype"]).newbyteorder("<")
        values = np.frombuffer(weights, kind, count, start).astype(np.float32)
        start += count * kind.itemsize
        if quantised:
            values = values * np.float32(quantised["scale"]) + np.float32(quantised["min"])
        name = _torch_name(entry["name"], separable)
        tensors[name] = torch.from_numpy(_torch_layout(values.reshape(entry["shape"]), name))
    if start != len(weights):
        raise DamagedFile(f"the manifest describes {start} bytes, the weight file has {len(weights)}")
    return tensors


def _torch_name(name: str, separable: set[str]) -> str:
    """`a/conv/filters` to `a.conv.weight`; the bias of a separable convolution belongs to its pointwise half."""
    owner, _, leaf = name.rpartition("/")
    leaf = {
        "filters": "weight",
        "weights": "weight",
        "biases": "bias",
        "depthwise_filter": "depthwise.weight",
        "pointwise_filter": "pointwise.weight",
        "bias": "pointwise.bias" if owner in separable else "bias",
        "fc": "fc.weight",
    }[leaf]
    return f"{owner}/{leaf}".lstrip("/").replace("/", ".")


def _torch_layout(values: np.ndarray, name: str) -> np.ndarray:
    """HWIO kernels to OIHW (depthwise HWC1 to C1HW), matrices [in, out] to [out, in]."""
    if values.ndim == 4:
        order = (2, 3, 0, 1) if name.endswith("depthwise.weight") else (3, 2, 0, 1)
        return np.ascontiguousarray(values.transpose(order))
    return np.ascontiguousarray(values.T)
