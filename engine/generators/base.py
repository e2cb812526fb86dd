"""What every generator shares: seeds, truncation, and one pass that gives features and picture."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from engine.core.errors import UserError


class LatentGenerator(nn.Module):
    """Subclasses set the attributes of `protocols.Generator` and write `map` and `render`; noise is constant."""

    latent = "w"
    is_3d = False
    identity_scale: Path | None = None  # how alike its strangers are (engine.identity.judge.Scale), if measured
    deciding_rows: int | None = None  # that many first rows decide who is shown; None: all
    together: int = 2  # codes of a training pass that are gone through at once: each holds its graph
    guess_codes: Callable[[Tensor], Tensor] | None = None  # aligned pictures to codes, where an encoder was trained

    def sample_z(self, seeds: Sequence[int]) -> Tensor:
        """One seed, one z, whatever the batch and whatever the device."""
        rows = [torch.randn(self.z_dim, generator=torch.Generator().manual_seed(int(seed))) for seed in seeds]
        return torch.stack(rows).to(self.w_avg.device) if rows else self.w_avg.new_zeros(0, self.z_dim)

    def features(self, w: Tensor) -> Tensor:
        return self.render(w, size=self.sizes[0])[0]

    def synth(self, w: Tensor, *, size: int | None = None, yaw: float = 0.0) -> Tensor:
        return self.render(w, size=size, yaw=yaw)[1]

    def affines(self) -> list[tuple[nn.Module, int]]:
        """The linear layers that read w, with the row each reads; none where w enters otherwise. A layer whose forward
        pass scales its stored tensors says so by `weight_gain` and `bias_gain`."""
        return []

    def pick_size(self, size: int | None) -> int:
        """The side to make; one that this generator cannot make is refused."""
        if size is None:
            return self.size
        if size not in self.sizes:
            raise UserError(f"size {size}: this generator makes {', '.join(map(str, self.sizes))} px")
        return size

    def truncate(self, w: Tensor, psi: float) -> Tensor:
        return w if psi == 1.0 else torch.lerp(self.w_avg, w, psi)
