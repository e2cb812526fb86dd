"""Random numbers keyed by (seed, task, purpose). No running stream, so leaving a task out changes no other task."""

import hashlib

import torch


def keyed(seed: int, task: int | str, purpose: str) -> torch.Generator:
    """A generator on the CPU: the same numbers on every device."""
    key = hashlib.sha256(f"{seed}/{task}/{purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(key[:8], "little") >> 1)
