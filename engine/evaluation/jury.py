"""Who judges pictures: our attribute nets, and the expression and age nets of the assets as a second opinion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engine import assets
from engine.attributes import FILE, JUDGES, NAMES, WITNESS, attribute_net, together

OLD = 40  # years


@dataclass(frozen=True)
class Jury:
    """`sees` gives [n, len(names)] bool of pictures in [-1, 1]; `nets` are the networks that it asks."""

    names: Sequence[str]
    sees: Callable[[Tensor], Tensor]
    nets: Sequence[str] = ()


def jury_of(model: nn.Module) -> Jury:
    """The jury that fits a generator: of faces for one that draws faces as FFHQ does, else an empty one."""
    if model.identity_scale is not None and FILE.exists() and assets.is_present("efficientnet-lite0"):
        return face_jury(model.w_avg.device)
    return Jury((), lambda pictures: torch.zeros(len(pictures), 0, dtype=torch.bool))


def face_jury(device: torch.device | str = "cpu", judges: Sequence[str] = JUDGES) -> Jury:
    """For FFHQ-aligned faces. Nets that are not on this machine are left out."""
    nets = [which for which in judges if which != WITNESS or assets.is_present("lpips-vgg")]
    ours = [attribute_net(which, device) for which in nets]
    names, parts = list(NAMES), [lambda x: together(ours, x)]
    if assets.is_present("expression"):
        from engine.faces.expression import CLASSES, expression

        nets.append("expression")
        names.append("happy (expression net)")
        parts.append(lambda x: expression(x.device).of_ffhq(x).argmax(1, keepdim=True) == CLASSES.index("happy"))
    if assets.is_present("age-gender"):
        from engine.faces.age_gender import age_gender

        nets.append("age-gender")
        names += ["male (age net)", f"over {OLD} (age net)"]
        parts.append(lambda x: _age_and_gender(age_gender(x.device).of_ffhq(x)))

    @torch.no_grad()
    def sees(pictures: Tensor) -> Tensor:
        return torch.cat([part(pictures) for part in parts], 1)

    return Jury(tuple(names), sees, tuple(nets))


def _age_and_gender(answer: tuple[Tensor, Tensor]) -> Tensor:
    age, male = answer
    return torch.stack([male > 0.5, age > OLD], 1)
