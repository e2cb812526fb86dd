"""Moving a task between the serving state and its vault file, and the reasons not to. No network changes here."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.core.errors import Mismatch, UserError
from engine.core.knobs import values
from engine.masks import vault
from engine.masks.method import Mode
from engine.masks.plan import Plan
from engine.masks.randomness import keyed
from engine.masks.receipts import Forgot, Grades
from engine.masks.state import State, sha256

if TYPE_CHECKING:
    from engine.masks.net import MaskedNet

REFERENCE_ROWS = 32


def take_out(net: MaskedNet, state: State, task: int, mode: Mode, folder: Path) -> tuple[State, Forgot]:
    """The state without the task, and its receipt. The file is written first, so that a full disk loses nothing."""
    start, before = time.monotonic(), sha256(state.flat())
    method, plan, info = net.method, net.plan, net.infos[task]
    deposit, view = method.deposit(plan, state, task), method.view(plan, state, task)
    bits = vault.bits(deposit)
    card = vault.VaultCard(
        method=net.name,
        knobs=values(method),
        task=task,
        name=info.name,
        classes=info.classes,
        backbone=net.backbone,
        pretraining=method.pretraining,
        plan=plan.describe(),
        built_on=tuple(method.built_on(deposit, task)),
        view=sha256(view),
        reference=vault.encode(net.raw(view, reference(plan))),
        bits=asdict(bits),
        tensors=vault.outline(deposit),
        library={"torch": torch.__version__, "threads": torch.get_num_threads()},
        created=datetime.now().isoformat(timespec="seconds"),
    )
    path = folder / f"{net.name}-task{task}-{card.view[:8]}.safetensors"
    vault.write(path, card, deposit)
    after = method.withdraw(plan, state, task, mode)
    clean = method.remains(plan, after, task) == 0
    promised = method.capabilities.order_free and not method.capabilities.trained_backbone
    grades = Grades(access=True, storage=clean, influence=True if promised and clean else None)
    kept_for = method.dependents(plan, after, task)
    seconds = time.monotonic() - start
    return after, Forgot(task, mode, before, sha256(after.flat()), path, bits, grades, kept_for, seconds)


def take_in(net: MaskedNet, path: Path, task: int | None) -> tuple[vault.VaultCard, State, bool]:
    """The card, the state with the task again, and whether every byte it reads is as it was. Or a refusal."""
    card, deposit = vault.read(path)
    _check_fits(net, card, path, task)
    deposit = {name: tensor.to(net.state.device) for name, tensor in deposit.items()}
    try:
        state = net.method.put_back(net.plan, net.state, card.task, deposit)
        equal = sha256(net.method.view(net.plan, state, card.task)) == card.view
        if vault.decode(card.reference, REFERENCE_ROWS).shape[1] < len(card.classes):  # SupSup has spare units besides
            raise ValueError("its reference is not of its classes")
    except (LookupError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise Mismatch(f"{path.name} does not hold the tensors of a task of this network ({error})") from error
    if net.method.capabilities.exact and not equal:
        raise Mismatch(
            f"{path.name}: task {card.task} was built on other weights than are here now; restore the tasks it was "
            f"built on ({_list(card.built_on)}) as they were, or use the session it came from"
        )
    return card, state, equal


def _check_fits(net: MaskedNet, card: vault.VaultCard, path: Path, task: int | None) -> None:
    if card.method != net.name:
        raise Mismatch(f"{path.name} was made by {card.method}; this network is {net.name}")
    if card.backbone != net.backbone:
        raise Mismatch(
            f"{path.name} belongs to another network (backbone {card.backbone[:8]}, this one is {net.backbone[:8]}); "
            "restore it in the session it came from"
        )
    if task is not None and card.task != task:
        raise Mismatch(f"{path.name} holds task {card.task}, not task {task}")
    if card.task in net.state.tasks:
        raise UserError(f"task {card.task} is live; there is nothing to restore")
    absent = [t for t in card.built_on if not net.method.remains(net.plan, net.state, t)]
    if absent:
        raise Mismatch(
            f"task {card.task} was built on task {_list(absent)}, whose bytes are no longer here: "
            f"restore task {_list(absent)} first"
        )


def check_exclusive(net: MaskedNet, task: int) -> None:
    """Refuses where live tasks read everything that the mode would release."""
    readers = net.method.dependents(net.plan, net.state, task)
    left = [
        net.method.remains(net.plan, net.method.withdraw(net.plan, net.state, task, mode), task)
        for mode in ("mask", "exclusive")
    ]
    if readers and left[0] == left[1]:
        raise UserError(
            f"task {_list(readers)} was built on task {task}: forget both (mode cascade), "
            f"or keep {task}'s weights (mode mask)"
        )


def latest_first(net: MaskedNet, task: int) -> list[int]:
    """The task's dependents, each before those it was built on."""
    readers = {t: set(net.method.dependents(net.plan, net.state, t)) for t in net.state.tasks}
    waiting, order = set(readers[task]), []
    while waiting:
        free = [t for t in waiting if not readers[t] & (waiting - {t})]
        order += sorted(free, reverse=True)
        waiting -= set(free)
    return order


def reference(plan: Plan) -> Tensor:
    """Fixed noise images on which logits are compared before and after: they say nothing of anybody's data."""
    shape = (REFERENCE_ROWS, *plan.image)
    return torch.randint(0, 256, shape, generator=keyed(0, "all", "reference"), dtype=torch.uint8)


def difference(a: Tensor, b: Tensor) -> float:
    """The largest change of a logit."""
    return (a - b).abs().max().item()


def _list(tasks: Iterable[int]) -> str:
    return ", ".join(map(str, tasks))
