"""A person, or any one sample, as an aim: the attacker has the photo and one recogniser, the other one judges."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine import assets, losses
from engine import device as devices
from engine.audit.aim import BATCH, Aim
from engine.faces.recogniser_b import centred_similarity, recogniser_b
from engine.identity.judge import scale_of
from engine.identity.targets import draw
from engine.methods.guide import sensible_size

STRANGERS = 0.95  # of them are less like the person than the bar: one in twenty passes by chance
SHARP = 10.0  # the attacker's cosine in units of a logit
DRAWN = 200  # samples that tell how alike strangers are where no recogniser fits


def can_recognise() -> bool:
    return all(assets.is_present(name) for name in ("recogniser-a", "recogniser-b", "lpips-alex"))


def face_aim(base: nn.Module, code: Tensor, words: str, *, photo: Tensor | None = None, of_faces: bool) -> Aim:
    """`code` is [1, num_ws, w_dim]; `photo` is aligned, [1, 3, h, h] in [-1, 1], else the base's own picture counts."""
    size, dtype = sensible_size(base), devices.quick_type(base.w_avg.device)
    with torch.no_grad():
        shown = base.synth(code, size=size) if photo is None else photo
    if shown.shape[-1] != size:
        shown = F.interpolate(shown, size=(size, size), mode="bilinear", align_corners=False, antialias=True)
    make = by_recognisers if of_faces and can_recognise() else by_pixels
    eyes = make(base, shown, size)
    return Aim(words, "face", **eyes, codes=code, pictures=shown, size=size, dtype=dtype)


def by_recognisers(base: nn.Module, shown: Tensor, size: int) -> dict:
    """A attacks (it also taught), B judges (no loss has seen it)."""
    scale = scale_of(base)
    with torch.no_grad():
        known, person = losses.identity(shown), recogniser_b(shown.device).of_ffhq(shown)
    mean = scale.mean.to(shown.device)

    def reads(pictures: Tensor) -> Tensor:
        return centred_similarity(recogniser_b(pictures.device).of_ffhq(pictures), person, mean)

    return {
        "pull": lambda pictures: SHARP * ((losses.identity(pictures) * known).sum(-1) - 0.5),
        "reads": reads,
        "bar": scale.quantile(STRANGERS),
        "attacker": "face recogniser A",
        "judge": "face recogniser B, which no loss has seen; one stranger in twenty passes for the person",
        "of_faces": True,
    }


def by_pixels(base: nn.Module, shown: Tensor, size: int) -> dict:
    """Where nothing recognises: likeness of pictures from which the mean of random samples is taken away."""
    with torch.no_grad():
        codes = draw(base, DRAWN, torch.Generator().manual_seed(7))
        others = torch.cat([base.synth(some, size=size) for some in codes.split(BATCH)])
    mean = others.mean(0, keepdim=True)

    def reads(pictures: Tensor) -> Tensor:
        return torch.cosine_similarity((pictures - mean).flatten(1), (shown - mean).flatten(1))

    return {
        "pull": lambda pictures: SHARP * (0.1 - (pictures - shown).abs().mean((1, 2, 3))),
        "reads": reads,
        "bar": reads(others).quantile(STRANGERS).item(),
        "attacker": "the difference of pixels",
        "judge": "the likeness of pixels, since no recogniser fits this model; one sample in twenty passes by chance",
    }
