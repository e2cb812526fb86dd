"""The one place that chooses a device."""

import torch

from engine.core.errors import UserError

CHOICES = ("auto", "cpu", "cuda", "mps")


def choose(name: str = "auto") -> torch.device:
    """`auto` takes the fastest that is there; asking for one that is not there is an error, not a fallback."""
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if present[kind]))
    if name not in present:
        raise UserError(f"unknown device {name!r}; known: {', '.join(CHOICES)}")
    if not present[name]:
        raise UserError(f"this machine has no {name} device that torch can use; try --device auto")
    return torch.device(name)


def quick_type(device: torch.device) -> torch.dtype:
    """The number type for long loops: bfloat16 where the processor has it (half the time), else float32."""
    native = device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if native else torch.float32


def computing(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """A block whose networks compute in this number type."""
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


def type_asked_for(device: torch.device) -> torch.dtype | None:
    """The number type of the block of `computing` around this, or None where there is none."""
    kind = device.type
    is_inside = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if is_inside else None
