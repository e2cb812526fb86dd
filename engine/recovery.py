"""T~: a target network with deposits put back. Every class is answered by exactly one branch."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from engine.delta import Delta, compose


class RecoverNet(nn.Module):
    """g(z_T) + gbar(z_D) as an index selection: the target answers what was kept, each deposit its own classes.

    Deposits may be put back in any number and order. Each one's branch is its own shallow part in front of the deep
    part that all share; classes whose deposit is missing stay as the target has them, forgotten.
    """

    editable = ()

    def __init__(self, target: nn.Module, deposits: Sequence[Delta] = ()) -> None:
        super().__init__()
        self.classes, self.channels = target.classes, target.channels
        self.target = target
        self.branches = nn.ModuleList(compose(target, [deposit]) for deposit in deposits)
        self.owned = [[self.classes.index(name) for name in deposit.card.knobs["classes"]] for deposit in deposits]

    def logits(self, x: Tensor, *, task: int | None = None) -> Tensor:
        z = self.target.logits(x).clone()
        for branch, classes in zip(self.branches, self.owned, strict=True):
            z[:, classes] = branch.logits(x)[:, classes]
        return z

    def summed(self, x: Tensor) -> Tensor:
        """The published code's other rule, for its own row in a report: all branches added, nothing filtered."""
        return self.target.logits(x) + sum(branch.logits(x) for branch in self.branches)

    def features(self, x: Tensor) -> Tensor:
        """Those of the branch whose class wins, so that they can be compared with one network's."""
        winner = self.logits(x).argmax(1)
        features = self.target.features(x).clone()
        for branch, classes in zip(self.branches, self.owned, strict=True):
            wins = torch.isin(winner, torch.tensor(classes, device=winner.device))
            features[wins] = branch.features(x)[wins]
        return features

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(x)
