"""The default base: faces at 1024 px, from the FFHQ MobileStyleGAN of the assets and our own preview heads."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from engine import assets
from engine.generators import Base, bases
from engine.generators.mobile import Mobile

HEADS = Path(__file__).resolve().parents[2] / "checkpoints" / "ours" / "ffhq_heads.safetensors"
HAAR = 0.5 * torch.tensor([[1.0, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # [pixel, band]


def band_runs(channels: int) -> Tensor:
    """The published order, all ll and then (lh, hl, hh) channel by channel, as four runs."""
    quarter = torch.arange(channels // 4)
    return torch.cat([quarter, *(channels // 4 + 3 * quarter + band for band in range(3))])


def convert(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The graph's constants under our names. Weights with a folded factor have lost theirs, so they go by order."""
    constants = sorted(tensors.items())
    mapping = [tensor for name, tensor in constants if name.startswith("mapping/") and tensor.numel() >= 512]
    state = {f"mapping.{i // 2}.{('weight', 'bias')[i % 2]}": tensor for i, tensor in enumerate(mapping)}

    synthesis = [(name.split(".", 1)[1], tensor) for name, tensor in constants if name.startswith("synthesis/")]
    named = dict(synthesis)
    folded = iter([tensor for name, tensor in synthesis if name.startswith("Mul_")])
    noises = iter([t for _, t in synthesis if t.ndim == 4 and t.shape[:2] == (1, 1) and t.shape[2] > 1])

    def style(ours: str, theirs: str, order: Tensor | slice = slice(None)) -> None:
        state[f"{ours}.weight"] = named[f"{theirs}.modulation.weight"][order]
        state[f"{ours}.bias"] = named[f"{theirs}.modulation.bias"][0, order]

    def tail(ours: str, theirs: str, order: Tensor | slice) -> None:
        state[f"{ours}.bias"] = named[f"{theirs}.bias"].flatten()[order]
        state[f"{ours}.noise"] = next(noises)[0, 0, :, :, None]

    first = "synthesis.first"
    order: Tensor | slice = band_runs(512)
    state[f"{first}.const"] = named["m.input.input"][0]
    state[f"{first}.weight"] = next(folded)[order]
    style(f"{first}.style", "m.conv1.conv")
    tail(first, "m.conv1", order)
    for i in range(7):
        ours, theirs = f"synthesis.blocks.{i}", f"m.layers.{i}"
        style(f"{ours}.up", f"{theirs}.up", order)
        for conv in ("conv1", "conv2"):
            style(f"{ours}.{conv}.style", f"{theirs}.{conv}.conv")
            point = next(folded).flatten(1)
            order = band_runs(len(point)) if conv == "conv2" and i < 6 else slice(None)
            state[f"{ours}.{conv}.depth"] = named[f"{theirs}.{conv}.conv.weight_dw"][:, 0]
            state[f"{ours}.{conv}.point"] = point[order]
            tail(f"{ours}.{conv}", f"{theirs}.{conv}", order)

    theirs, bands = "m.layers.6.to_img", band_runs(12).view(4, 3)
    style("synthesis.picture.style", f"{theirs}.conv")
    weight, bias = named[f"{theirs}.conv.weight"].flatten(1)[bands], named[f"{theirs}.bias"].flatten()[bands]
    state["synthesis.picture.weight"] = torch.einsum("pb,bci->cpi", HAAR, weight).flatten(0, 1)
    state["synthesis.picture.bias"] = torch.einsum("pb,bc->cp", HAAR, bias).flatten()
    return {name: tensor.contiguous() for name, tensor in state.items()}


def build(heads: Mapping[str, Tensor]) -> Mobile:
    """The published network with these preview heads and this average."""
    model = Mobile()
    state = convert(assets.load("ffhq")) | {name: tensor.float() for name, tensor in heads.items()}
    model.load_state_dict(state, assign=True)
    return model.eval()


def load() -> nn.Module:
    model = build(load_file(HEADS))
    model.identity_scale = HEADS.with_name("ffhq_identity.safetensors")
    model.guess_codes = guess_codes if HEADS.with_name("ffhq_encoder.safetensors").exists() else None
    return model


def guess_codes(pictures: Tensor) -> Tensor:
    """Aligned faces [n, 3, 128, 128] to codes, by the encoder that was trained for this base."""
    from engine.inversion.encoder import encoder

    return encoder(pictures.device).encode(pictures)


bases["ffhq"] = Base(
    load=load,
    title="Faces, FFHQ, 1024 px",
    licence="Apache-2.0 package; distilled from StyleGAN2-FFHQ, whose terms are non-commercial: research use",
    needs=("ffhq",),
    of_faces=True,
)
