"""Original networks: which classifier fits which data set, how it is trained, and the two that ship."""

from dataclasses import dataclass, replace
from pathlib import Path

from engine.classifiers import classifiers
from engine.classifiers.stored import NetworkCard, Stored
from engine.core.errors import UserError
from engine.core.events import Done, Task, watch
from engine.core.knobs import values
from engine.datasets import Splits, datasets
from engine.fit import Fit, accuracy

SHIPPED = Path(__file__).resolve().parents[1] / "checkpoints" / "ours"


@dataclass(frozen=True)
class Recipe:
    """A network and how to train it on one data set."""

    architecture: str
    fit: Fit
    stride: int = 1  # of the stem: 2 makes 64 px images as cheap as 32 px ones
    licence: str = "MIT, made by this project"


RECIPES = {
    "digits": Recipe("tiny", Fit(epochs=20, shift=1)),
    "people": Recipe(
        "resnet20",
        Fit(epochs=15, lr=0.1, batch=64, shift=4, flip=True),
        stride=2,
        licence="research use: trained on pictures of the default generator",
    ),
    "cifar10": Recipe("resnet20", Fit(epochs=15, shift=4, flip=True), licence="as the data"),
    "fashion-mnist": Recipe("resnet20", Fit(epochs=8, shift=2, flip=True), licence="as the data"),
    "cub200": Recipe("resnet18", Fit(epochs=60, shift=6, flip=True), stride=2, licence="as the data"),
}


def train(data: str, splits: Splits, *, seed: int = 0, architecture: str | None = None) -> Task:
    """An original for a data set, by its recipe or with another architecture. Done holds a Stored."""
    recipe = RECIPES[data]
    name = architecture or recipe.architecture
    config = {"classes": splits.classes, "channels": splits.shape[0], "seed": seed}
    if recipe.stride != 1 and name.startswith("resnet"):
        config["stride"] = recipe.stride
    fit = replace(recipe.fit, seed=seed)
    trained = yield from watch(fit.run(classifiers[name](**config), splits.train, splits.validation))
    scalars = {part: 100 * accuracy(trained, getattr(splits, part)) for part in ("validation", "test")}
    yield Done(Stored(trained, NetworkCard(data, f"{name} for {data}", recipe.licence, (), values(fit), scalars)))


def shipped_path(data: str) -> Path:
    return SHIPPED / f"{data}_classifier.safetensors"


def shipped(data: str) -> Stored:
    """The ready original of a data set; only digits and people have one."""
    path = shipped_path(data)
    if not path.is_file():
        ready = ", ".join(name for name in datasets if shipped_path(name).is_file()) or "none"
        raise UserError(f"no ready network for {data!r} (there is one for: {ready}); train one on your data first")
    return Stored.load(path)
