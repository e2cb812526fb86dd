"""Writes checkpoints as the published code writes them, around weights of our own. The source inside is a canary."""

import io
import pickle
import sys
import types
from collections.abc import Mapping
from unittest.mock import patch

import torch
from torch import Tensor, nn

CANARY = 'raise RuntimeError("the source inside a checkpoint was run")\n'


def _reconstruct_persistent_obj(meta):
    raise RuntimeError("a function named in a checkpoint was called")


class EasyDict(dict):
    """dnnlib's dict, which published settings are made of."""


_reconstruct_persistent_obj.__module__ = "torch_utils.persistence"
_reconstruct_persistent_obj.__qualname__ = "_reconstruct_persistent_obj"
EasyDict.__module__ = "dnnlib.util"


def _packages() -> dict[str, types.ModuleType]:
    made = {
        name: types.ModuleType(name) for name in ("torch_utils", "torch_utils.persistence", "dnnlib", "dnnlib.util")
    }
    made["torch_utils.persistence"]._reconstruct_persistent_obj = _reconstruct_persistent_obj
    made["dnnlib.util"].EasyDict = EasyDict
    return made


class Network:
    """A class that pickles its own source, as every published network does."""

    def __init__(self, class_name: str, state: dict) -> None:
        self.meta = {"type": "class", "version": 6, "module_src": CANARY, "class_name": class_name, "state": state}

    def __reduce__(self):
        return _reconstruct_persistent_obj, (self.meta,)


def tree(tensors: Mapping[str, Tensor]) -> nn.Module:
    """Plain modules whose state_dict is `tensors`: floats that need gradients as parameters, the rest as buffers."""
    root = nn.Module()
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        module = root
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        if isinstance(tensor, nn.Parameter):
            module.register_parameter(last, tensor)
        else:
            module.register_buffer(last, tensor)
    return root


def network(module: nn.Module, kwargs: Mapping | None = None, *, args: tuple = (), name="Generator", **attributes):
    """The module as a published class, and so are its children."""
    state = dict(module.__dict__) | attributes
    state["_modules"] = {key: network(child, name="Layer") for key, child in module._modules.items()}
    state |= {"_init_args": args, "_init_kwargs": EasyDict(kwargs or {})}
    return Network(name, state)


def dump(value: object, protocol: int = 4) -> bytes:
    with patch.dict(sys.modules, _packages()):
        return pickle.dumps(value, protocol)


def torch_save(value: object, *, archive: bool = True) -> bytes:
    file = io.BytesIO()
    with patch.dict(sys.modules, _packages()):
        torch.save(value, file, _use_new_zipfile_serialization=archive)
    return file.getvalue()


def small(factor: float = 1.0) -> dict[str, Tensor]:
    """A few tensors under StyleGAN2's names; enough to be recognised."""
    shapes = {
        "synthesis.b4.const": (4, 4, 4),
        "synthesis.b4.conv1.weight": (4, 4, 3, 3),
        "synthesis.b4.conv1.noise_strength": (),
        "synthesis.b4.torgb.weight": (3, 4, 1, 1),
        "synthesis.b8.conv1.weight": (4, 4, 3, 3),
        "synthesis.b8.torgb.weight": (3, 4, 1, 1),
        "mapping.fc0.weight": (6, 5),
        "mapping.w_avg": (6,),
    }
    random = torch.Generator().manual_seed(0)
    made = {name: torch.randn(shape, generator=random) * factor for name, shape in shapes.items()}
    return {name: nn.Parameter(value) if value.ndim > 1 else value for name, value in made.items()}


SETTINGS = {"z_dim": 5, "c_dim": 0, "w_dim": 6, "img_resolution": 8, "img_channels": 3, "channel_base": 32}


def checkpoint(protocol: int = 4, **more: object) -> bytes:
    """A whole published file: G is 1.01 times G_ema, so that taking the wrong one shows."""
    wrong, right = (network(tree(small(factor)), SETTINGS, **more) for factor in (1.01, 1.0))
    return dump({"training_set_kwargs": None, "G": wrong, "D": None, "G_ema": right, "augment_pipe": None}, protocol)
