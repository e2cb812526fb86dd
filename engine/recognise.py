"""Which published architecture a set of weights belongs to, and with which settings it was built."""

import re
from collections.abc import Mapping, Sequence

from engine.core.errors import UserError

Shapes = Mapping[str, Sequence[int]]

SIGNS = {  # a name that only this architecture has
    "eg3d": "backbone.synthesis.b4.const",
    "stylegan3": "synthesis.input.freqs",
    "stylegan2": "synthesis.b4.const",
}
_FIRST = ("z_dim", "c_dim", "w_dim", "img_resolution", "img_channels")
POSITIONAL = {
    "eg3d": (*_FIRST, "sr_num_fp16_res", "mapping_kwargs", "rendering_kwargs", "sr_kwargs"),
    "stylegan3": (*_FIRST, "mapping_kwargs"),
    "stylegan2": (*_FIRST, "mapping_kwargs", "synthesis_kwargs"),
}
OVERRIDES = ("neural_rendering_resolution", "rendering_kwargs")  # training changes these on the network itself
BESIDE = 'put a JSON file of the same name beside it: {"architecture": …, "config": {…}}'


def architecture(names: Mapping[str, object]) -> str:
    """By names alone: the published classes of StyleGAN2 and 3 are both called Generator."""
    for found, sign in SIGNS.items():
        if sign in names:
            return found
    first = ", ".join(sorted(names)[:3]) or "no tensors"
    raise UserError(
        f"holds no generator that we know (its first names: {first}). We know StyleGAN2, StyleGAN3 and EG3D"
    )


def config_of_network(kind: str, args: Sequence, kwargs: Mapping, attributes: Mapping) -> dict:
    """From how a published network was made and what was changed on it since."""
    if len(args) > len(POSITIONAL[kind]):
        raise UserError(f"was made with {len(args)} positional arguments; the published class has fewer")
    config = dict(zip(POSITIONAL[kind], args, strict=False)) | dict(kwargs)
    if kind == "stylegan2":
        # StyleGAN2-ADA nests these and has other defaults than the later code of StyleGAN3 and EG3D.
        later = {"num_fp16_res": 4, "conv_clamp": 256}
        nested = config.pop("synthesis_kwargs", None)
        config = later | config if nested is None else {"num_fp16_res": 0, "conv_clamp": None} | config | nested
    if kind == "eg3d":
        config |= {key: attributes[key] for key in OVERRIDES if key in attributes}
    return config


def config_of_weights(kind: str, shapes: Shapes) -> dict:
    """From shapes alone, for files that hold nothing else."""
    if kind == "eg3d":
        raise UserError(f"holds EG3D weights but not how they are rendered (cameras, depths); {BESIDE}")
    try:
        return _mapping(shapes) | (_stylegan2(shapes) if kind == "stylegan2" else _stylegan3(shapes))
    except (KeyError, IndexError, ValueError) as error:
        raise UserError(f"holds only part of a {kind} generator; {BESIDE}") from error


def _mapping(shapes: Shapes) -> dict:
    layers = sum(bool(re.fullmatch(r"mapping\.fc\d+\.weight", name)) for name in shapes)
    embedded, c_dim = shapes.get("mapping.embed.weight", (0, 0))
    hidden, joined = shapes["mapping.fc0.weight"]
    (w_dim,) = shapes["mapping.w_avg"]
    kwargs = {"num_layers": layers} | ({"layer_features": hidden} if layers > 1 and hidden != w_dim else {})
    kwargs |= {"embed_features": embedded} if embedded not in (0, w_dim) else {}
    return {"z_dim": joined - embedded, "c_dim": c_dim, "w_dim": w_dim, "mapping_kwargs": kwargs}


def _stylegan2(shapes: Shapes) -> dict:
    blocks = (re.fullmatch(r"synthesis\.b(\d+)\.conv1\.weight", name) for name in shapes)
    widths = {int(block[1]): shapes[block[0]][0] for block in blocks if block}
    side, most = max(widths), max(widths.values())
    base = widths[side] * side
    if any(min(base // at, most) != width for at, width in widths.items()):
        raise ValueError("channels follow no published rule")
    colours = shapes[f"synthesis.b{side}.torgb.weight"][0]
    # Whether outputs were clamped leaves no trace in the weights; the published networks clamp at 256.
    found = {"img_resolution": side, "img_channels": colours, "channel_base": base, "channel_max": most}
    return found | {"num_fp16_res": 4, "conv_clamp": 256}


def _stylegan3(shapes: Shapes) -> dict:
    named = (re.fullmatch(r"synthesis\.L(\d+)_(\d+)_(\d+)\.weight", name) for name in shapes)
    layers = sorted((int(found[1]), int(found[2]), int(found[3]), shapes[found[0]]) for found in named if found)
    (last, side, colours, _), (_, _, width, _) = layers[-1], layers[-2]
    radial = any(name.endswith("down_filter") and len(shape) == 2 for name, shape in shapes.items())
    found = {"img_resolution": side, "img_channels": colours, "num_layers": last, "use_radial_filters": radial}
    # The layers before the last are critically sampled: their cutoff is half the side, so width = base / side.
    widest = max(layer[2] for layer in layers)
    return found | {"conv_kernel": layers[0][3][-1], "channel_base": width * side, "channel_max": widest}
