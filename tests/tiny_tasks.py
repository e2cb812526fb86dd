"""Four tasks of drawn shapes at 8 px and two tiny networks, for the tests of the mask family."""

from functools import cache

from engine.core.events import result
from engine.data import ImageSet
from engine.masks import mask_methods
from engine.masks.net import MaskedNet
from engine.masks.plan import mlp, small_cnn
from engine.masks.shapes import CLASSES, shapes
from engine.masks.splits import TaskData

IMAGE = (1, 8, 8)
PLANS = {"mlp": mlp(IMAGE, (24, 16)), "cnn": small_cnn(IMAGE, (4, 6, 6, 8))}
METHODS = sorted(mask_methods)
QUICK = {"steps": 6, "batch": 16}
EXTRA = {
    "supsup": {"outputs": 8},
    "hat": {"cycle": 3},
    "ctr": {"cycle": 3, "pretrain": 20},
    "ksm": {"pretrain": 20},
    "piggyback": {"pretrain": 20},
}


@cache
def tasks() -> tuple[TaskData, ...]:
    """Two shapes each; the pictures are not those that backbones are trained on."""
    pictures = shapes(IMAGE, 800, seed=77)
    cut = []
    for number in range(4):
        part = pictures.of((2 * number, 2 * number + 1))
        local = ImageSet(part.x, part.y - 2 * number, CLASSES[2 * number : 2 * number + 2])
        parts = [ImageSet(local.x[rows], local.y[rows]) for rows in (slice(0, 100), slice(100, 130), slice(130, 160))]
        cut.append(TaskData(f"task {number}", local.classes, *parts))
    return tuple(cut)


def begin(name: str, plan: str = "mlp", seed: int = 0, **knobs) -> MaskedNet:
    return result(MaskedNet.begin(name, {**QUICK, **EXTRA.get(name, {}), **knobs}, PLANS[plan], seed))


def learn(net: MaskedNet, *numbers: int):
    """Learns these tasks in turn and gives the last receipt."""
    receipt = None
    for number in numbers:
        receipt = result(net.learn_task(number, tasks()[number]))
    return receipt
