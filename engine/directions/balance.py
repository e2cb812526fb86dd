"""Gives back what a student has lost of protected attributes besides the feature: a small change of its style layers.

Who learns to forget beards shows everyone a little less male. Of random samples the keepers see what is lost of each
attribute. How far codes must go along the attributes' own directions d_a to get that back is found by trying: a move
along one is seen as a quarter to a half of it, and as some of the others. A straight line over the scores of the codes
tells the length for a code w, and the layers that say what is shown are made to read w + Σ length_a(w) d_a instead (see
redirect.py). Gradients never follow the keepers, so nothing learns to please them.
"""

import copy
from collections.abc import Generator

import torch
from torch import Tensor, nn

from engine.core.errors import Stopped
from engine.core.events import Event
from engine.directions.sight import Eye
from engine.directions.study import Study
from engine.redirect import deciding, fold

SEEN = 600  # random samples
TRIED = 32  # of them, moved along each attribute
FAINT = 0.2  # squared: what answers its own move by much less than the root of this is hardly moved at all
RIDGE = 0.02  # of the regression, for each sample
RETURNED = 0.01  # of the samples may show the feature again


def balanced(student: nn.Module, found: Study, eye: Eye, rounds: int) -> Generator[Event, bool | None, nn.Module]:
    """The student with what it lost given back, as far as that helps. Where nothing is protected, or no layer reads w,
    it is the student itself; a stop leaves what was reached."""
    if not (rounds and found.keepers and deciding(student)):
        return student
    some = slice(min(SEEN, found.drawn))
    best, trial, least, shown, lengths = student, student, float("inf"), 1.0, None
    for turn in range(rounds + 1):
        try:
            looks = (yield from eye.watch(trial, found.pool.codes[some], "giving back what else was lost")).looks
            if lengths is None:
                lengths = yield from moves_for(student, found, eye, looks)
        except Stopped:
            break
        lost = torch.stack([keeper.lost(found.pool.looks[some], looks) for keeper in found.keepers], 1)
        left = torch.stack([sight.flags(looks) for sight in found.sights]).any(0).float().mean().item()
        total = imbalance(lost, found.flagged[some])
        if total >= least or left > shown + RETURNED:
            break
        best, least, shown = trial, total, min(left, shown)
        if turn < rounds:
            trial = copy.deepcopy(trial)
            give_back(trial, found, found.pool.codes[some], lost @ lengths.T)
    return best


def moves_for(student: nn.Module, found: Study, eye: Eye, looks: Tensor) -> Generator[Event, bool | None, Tensor]:
    """[moves, attributes]: how far along every attribute's direction gives back one standard deviation of each. Codes
    are moved up and down in turn; `looks` are at random samples as they are."""
    codes, before = found.pool.codes[:TRIED, None], looks[:TRIED]
    turns = torch.ones(len(codes), 1, 1).to(codes)
    turns[::2] = -1
    rows = sorted({row for _, row in deciding(student)})
    answers = []
    for move in _moves(found):
        w = codes.repeat(1, student.num_ws, 1)
        w[:, rows] += turns * move
        now = (yield from eye.watch(student, w, "finding the way back")).looks
        answers.append(torch.stack([-(turns[:, 0, 0] * k.lost(before, now)).mean() for k in found.keepers]))
    gain = torch.stack(answers, 1)  # [attributes seen, moves]
    return torch.linalg.solve(gain.T @ gain + FAINT * torch.eye(len(gain)).to(gain), gain.T)


def _moves(found: Study) -> Tensor:
    """[attributes, D]: a standard deviation along each."""
    return torch.stack([keeper.direction.sigma * keeper.direction.shift for keeper in found.keepers])


def imbalance(lost: Tensor, flagged: Tensor) -> float:
    """Standard deviations that are lost on average, by those who showed the feature and by those who did not, each with
    their share of the samples; over all attributes."""
    sides = [lost[side].mean(0).abs().sum() * side.float().mean() for side in (flagged, ~flagged) if side.any()]
    return sum(sides).item()


def give_back(student: nn.Module, found: Study, codes: Tensor, far: Tensor) -> None:
    """Moves every code along the attributes by what a straight line over the codes' scores tells of `far`
    [samples, attributes]."""
    known = [*(keeper.direction for keeper in found.keepers), *found.directions]
    scores = torch.stack([one.score / one.sigma for one in known])  # [known, D]
    x = (codes - found.space.centre) @ scores.T
    x = torch.cat([x, x.new_ones(len(x), 1)], 1).double()
    ridge = len(x) * RIDGE * torch.eye(x.shape[1]).to(x)
    ridge[-1, -1] = 0  # the constant is free
    line = torch.linalg.solve(x.T @ x + ridge, x.T @ far.double()).to(far)  # [known + 1, attributes]
    slopes = line[:-1].T @ scores
    moves = _moves(found)
    for layer, _ in deciding(student):
        fold(layer, moves, slopes, line[-1] - slopes @ found.space.centre)
