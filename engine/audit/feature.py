"""A labelled feature as an aim. Where our attribute nets know it, one attacks and another judges; else two judges are
taught from the labels on the base's pictures, on different samples. Whoever judges reads another trunk than the
attacker: a picture that fools one reader of a trunk fools the next, though nobody else sees the feature in it."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine import assets, attributes
from engine import device as devices
from engine.audit.aim import Aim
from engine.core.events import Done, Task
from engine.core.targets import Labels
from engine.directions.labelled import Labelled
from engine.directions.regression import logistic_regression
from engine.directions.sight import BATCH, Eye, Seen, Sight
from engine.evaluation.feature import attribute_of
from engine.evaluation.independence import check_judges
from engine.evaluation.jury import jury_of
from engine.methods.guide import sensible_size
from engine.requests import labelled_codes, roles_of

ATTACKER = "second"  # the network that is climbed
MOST = 64  # labelled samples of each side that are used
POOL = 200  # random samples behind judges that are taught here
FIRST_SEED = 1_500_000_000
Sees = Callable[[Tensor], Tensor]  # pictures to a number each; above 0 it is seen
SMALL = 64  # px; below, the pixels themselves tell


def feature_aim(base: nn.Module, labels: Labels, *, any_judge: bool = False) -> Task:
    """Done holds the Aim. Of several features that were erased in one run, the first is looked for. `any_judge` lets
    a network judge that labelled; the aim says so."""
    also, roles = tuple(other.name for other in labels.also), roles_of(labels)
    labels = Labels(labels.name, labels.having[:MOST], labels.lacking[:MOST], psi=labels.psi)
    request, known = labelled_codes(base, labels), attribute_of(labels.name)
    having, lacking = request.forget.w, request.retain.w
    size = base.sizes[0] if base.sizes[0] >= SMALL else sensible_size(base)
    eye = Eye(size, devices.quick_type(base.w_avg.device))
    caveats = [f"The run erased {len(also) + 1} features; this audit looks for “{labels.name}” only."] if also else []
    jury = jury_of(base)
    if known in jury.names:
        judges = dict.fromkeys([reader(), *jury.nets])
        caveats += check_judges(judges, roles | {"attacked": ATTACKER}, override=any_judge)
        seen = yield from eye.watch(base, having[:, 0], "looking at the labelled samples")
        eyes = by_nets(known, base.w_avg.device)
    else:
        random = base.map(base.sample_z(range(FIRST_SEED, FIRST_SEED + POOL)), psi=labels.psi)
        codes = torch.cat([having, lacking, random])[:, 0]
        seen = yield from eye.watch(base, codes, "teaching two judges from the labels")
        eyes = taught(labels.name, seen, len(having), len(lacking))
    yield Done(
        Aim(
            f"“{labels.name}”",
            "feature",
            **eyes,
            codes=having,
            pictures=seen.pictures[: len(having)],
            size=size,
            others=lacking,
            psi=labels.psi,
            dtype=eye.dtype,
            of_faces=base.identity_scale is not None,
            also=also,
            caveats=tuple(caveats),
        )
    )


def by_nets(name: str, device: torch.device) -> dict[str, Any]:
    column = attributes.index(name)
    second, judge = (attributes.attribute_net(which, device) for which in (ATTACKER, reader()))
    return {
        "pull": lambda pictures: second.logits(pictures)[:, column],
        "reads": lambda pictures: judge.logits(pictures)[:, column],
        "bar": 0.0,
        "attacker": "our second attribute net",
        "judge": "our attribute net, which neither taught nor attacked",
    }


def reader() -> str:
    """The network that judges pictures which an attack has made."""
    return attributes.WITNESS if assets.is_present("lpips-vgg") else "judge"


def taught(name: str, seen: Seen, having: int, lacking: int) -> dict[str, Any]:
    """Labels say of random samples by the frozen base's inner map; two linear judges then learn it from pictures, each
    from its half. What they see of a picture does not depend on which model drew it."""
    known, looks = having + lacking, seen.looks
    labelled = Labelled.of(name, looks[:having], looks[having:known])
    sight = Sight.fit(labelled, looks[known:], recall=0.5)  # only what is beyond doubt teaches
    shows, clear = sight.flags(looks), sight.is_clear(looks)
    shows[:having], clear[:having] = True, False
    shows[having:known], clear[having:known] = False, True
    halves = [(shows.nonzero()[half::2, 0], clear.nonzero()[half::2, 0]) for half in (0, 1)]
    readers = (descriptor(seen.pictures.shape[-1], which) for which in (ATTACKER, reader()))
    attacker, judge = (judge_of(read, seen.pictures, *half) for read, half in zip(readers, halves, strict=True))
    return {
        "pull": attacker,
        "reads": judge,
        "bar": 0.0,
        "attacker": "a judge taught from the labels",
        "judge": "a second judge taught from the labels, on other samples than the attacker's",
    }


def judge_of(describe: Callable[[Tensor], Tensor], pictures: Tensor, with_it: Tensor, without: Tensor) -> Sees:
    """A linear judge, from the pictures that show it and those that do not."""
    with torch.no_grad():
        described = torch.cat([describe(some) for some in pictures.split(BATCH)])
    mean, std = described.mean(0), described.std(0) + 1e-3
    truth = torch.cat([torch.ones(len(with_it)), torch.zeros(len(without))]).to(described)
    weight, offset = logistic_regression((described[torch.cat([with_it, without])] - mean) / std, truth)
    return lambda x: (describe(x) - mean) / std @ weight + offset


def descriptor(size: int, which: str) -> Callable[[Tensor], Tensor]:
    """What a linear judge reads of pictures, differentiable."""
    if size >= SMALL and assets.is_present("efficientnet-lite0"):
        return lambda pictures: attributes.describe(attributes.see(pictures, which), which)
    return lambda pictures: F.adaptive_avg_pool2d(pictures, 8).flatten(1)
