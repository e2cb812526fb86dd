"""KSM, kernel-wise soft mask (Yang et al., CVPR 2021): one on-or-off and one scale per kernel of a fixed network."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.knobs import knob
from engine.masks import mask_methods
from engine.masks.backbone import pretrained, pretraining_knob
from engine.masks.method import Begin, Learn, MaskMethod
from engine.masks.packing import pack, pack_numbers, unpack, unpack_numbers
from engine.masks.plan import Layer, Plan
from engine.masks.receipts import Capabilities
from engine.masks.shapes import WORDS
from engine.masks.state import State, Tensors
from engine.masks.training import Update, Work, detached, fit

START = 3.0  # r0: every kernel on, every scale 1
HOT, COLD = 1.0, 0.05  # beta at the first and at the last step
FROZEN = 0.2  # last share of the steps, in which the served network itself is trained


@mask_methods.register("ksm")
@dataclass(frozen=True)
class KSM(MaskMethod):
    """w = W * b * s with b = 1[r > 0] and s = 2 sigmoid(r - r0); b is relaxed to sigmoid(r / beta) while beta falls."""

    lr: float = knob(1e-3, "Adam learning rate of the head", min=1e-6, max=1.0)
    mask_lr: float = knob(5e-2, "Adam learning rate of the kernels' parameter r", min=1e-6, max=1.0)
    scale_bits: int = knob(7, "bits of a live kernel's scale; 0 means the scale is 1", choices=(0, 4, 7, 32))
    sparsity: float = knob(1e-4, "weight of the term that switches kernels off", min=0, max=10.0, advanced=True)
    rule: str = knob("product", "b * s, or b + (1 - b) * s", choices=("product", "superposition"), advanced=True)
    group: int = knob(16, "inputs that share one value in a linear layer", min=1, max=1024, advanced=True)
    pretrain: int = pretraining_knob()

    title: ClassVar[str] = "KSM"
    pretraining: ClassVar[str] = WORDS
    capabilities: ClassVar[Capabilities] = Capabilities(
        needs_task=True, exact=True, order_free=True, trained_backbone=False, note=f"pretrained on {WORDS}"
    )

    def begin(self, plan: Plan, seed: int) -> Begin:
        shared = yield from pretrained(plan, seed, self.pretrain)
        return {name: tensor for name, tensor in shared.items() if name.startswith("weight.")}

    def learn(self, work: Work) -> Learn:
        plan, shared, head = work.plan, work.state.shared, work.head()
        r = [torch.full(self._grid(x), START, device=work.state.device).requires_grad_() for x in plan.layers]
        live: list[Tensor] = []  # b, once it is frozen
        melting = max(1, round(self.steps * (1 - FROZEN)))

        def logits(x: Tensor, step: int) -> Tensor:
            beta = HOT * (COLD / HOT) ** min(1.0, step / melting)
            on = live or [torch.sigmoid(value / beta) for value in r]
            kernels = [self._combine(b, self._scale(value)) for b, value in zip(on, r, strict=True)]
            return self.logits(plan, self._times(plan, shared, kernels) | head, x)

        def penalty(step: int) -> Tensor:
            return self.sparsity * torch.stack([torch.sigmoid(value).mean() for value in r]).mean()

        parameters = [{"params": r, "lr": self.mask_lr}, {"params": list(head.values()), "lr": self.lr}]
        how = {"batch": self.batch, "total": self.steps}
        fitted = yield from fit(work, logits, parameters, steps=melting, penalty=penalty, **how)
        live.extend((value > 0).float() for value in r)
        if not fitted.stopped and self.steps > melting:
            rest = [{**group, "lr": 0.2 * group["lr"]} for group in parameters]
            how |= {"purpose": "frozen", "done": melting}
            fitted = yield from fit(work, logits, rest, steps=self.steps - melting, **how)
        private = self._store(live, [self._scale(value).detach() for value in r]) | detached(head)
        private |= work.statistics(self._view(plan, shared, private), lambda *a, **k: self.logits(plan, *a, **k))
        return Update(shared, {work.task: private}, fitted.loss, fitted.stopped, {})

    def view(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        return self._view(plan, state.shared, state.tasks[task])

    def masks(self, plan: Plan, state: State, task: int) -> dict[str, Tensor]:
        own = state.tasks[task]
        return {f"weight.{i}": unpack(own[f"mask.on.{i}"], self._grid(x)) for i, x in enumerate(plan.layers)}

    def kernels(self, layer: Layer, private: Tensors, i: int) -> Tensor:
        """The served value of every kernel, from its stored bits."""
        on = unpack(private[f"mask.on.{i}"], self._grid(layer))
        kept = on if self.rule == "product" else ~on
        scale = torch.ones(on.shape, device=on.device)
        if self.scale_bits:
            scale[kept] = self._dequantise(private[f"mask.scale.{i}"], int(kept.sum()))
        return self._combine(on.float(), scale)

    # Inside

    def _grid(self, layer: Layer) -> tuple[int, int]:
        """Kernels of a convolution; runs of `group` inputs of a linear layer."""
        return (layer.units_out, layer.units_in if layer.kind == "conv" else -(-layer.fan_in // self.group))

    def _combine(self, b: Tensor, s: Tensor) -> Tensor:
        return b * s if self.rule == "product" else b + (1 - b) * s

    def _scale(self, r: Tensor) -> Tensor:
        return 2 * torch.sigmoid(r - START) if self.scale_bits else torch.ones_like(r)

    def _store(self, on: list[Tensor], scales: list[Tensor]) -> dict[str, Tensor]:
        """b for every kernel, s for those where it counts; r itself is thrown away."""
        private = {}
        for i, (b, s) in enumerate(zip(on, scales, strict=True)):
            private[f"mask.on.{i}"] = pack(b)
            if self.scale_bits:
                kept = b.bool() if self.rule == "product" else ~b.bool()
                private[f"mask.scale.{i}"] = self._quantise(s[kept])
        return private

    def _quantise(self, s: Tensor) -> Tensor:
        """Levels uniform in (0, 2), each at the middle of its step; at 32 bits the number itself."""
        if self.scale_bits == 32:
            return s
        levels = 2**self.scale_bits
        return pack_numbers((s / 2 * levels).floor().clamp(0, levels - 1).long(), self.scale_bits)

    def _dequantise(self, packed: Tensor, count: int) -> Tensor:
        if self.scale_bits == 32:
            return packed
        return (unpack_numbers(packed, self.scale_bits, count) + 0.5) * (2 / 2**self.scale_bits)

    def _times(self, plan: Plan, shared: Tensors, kernels: list[Tensor]) -> dict[str, Tensor]:
        view = {}
        for i, (layer, value) in enumerate(zip(plan.layers, kernels, strict=True)):
            if layer.kind == "conv":
                spread = value[:, :, None, None]
            else:
                spread = value.repeat_interleave(self.group, 1)[:, : layer.fan_in]
            view[f"weight.{i}"] = shared[f"weight.{i}"] * spread
        return view

    def _view(self, plan: Plan, shared: Tensors, private: Tensors) -> dict[str, Tensor]:
        kernels = [self.kernels(layer, private, i) for i, layer in enumerate(plan.layers)]
        rest = {name: tensor for name, tensor in private.items() if not name.startswith("mask.")}
        return self._times(plan, shared, kernels) | rest
