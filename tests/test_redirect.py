import copy

import pytest
import torch

from engine.generators.tiny import Tiny
from engine.redirect import Latents, fold, redirect


@pytest.fixture
def base():
    return Tiny(w_dim=32, z_dim=32).requires_grad_(False)


@pytest.fixture
def latents(base):
    return Latents.of(base)


def codes(base, *seeds):
    return base.map(base.sample_z(seeds))


def test_the_code_shows_what_the_target_showed(base, latents):
    w_u, w_t = codes(base, 1, 2)
    student = copy.deepcopy(base)
    redirect(student, latents, w_u[None], w_t[None])
    shown = student.synth(w_u[None])
    assert (shown - base.synth(w_u[None])).abs().mean() > 0.02
    torch.testing.assert_close(shown, base.synth(w_t[None]), atol=1e-4, rtol=0)


def test_random_codes_move_little_beside_the_redirected_one(base, latents):
    w_u, w_t = codes(base, 1, 2)
    student = copy.deepcopy(base)
    redirect(student, latents, w_u[None], w_t[None])
    others = codes(base, *range(100, 164))
    moved = (student.synth(others) - base.synth(others)).abs().mean()
    redirected = (student.synth(w_u[None]) - base.synth(w_u[None])).abs().mean()
    assert moved < 0.35 * redirected  # 1/sqrt(32) = 0.18 of the way, in style space


def test_the_average_code_does_not_move(base, latents):
    w_u, w_t = codes(base, 1, 2)
    student = copy.deepcopy(base)
    redirect(student, latents, w_u[None], w_t[None])
    average = base.w_avg[None]
    torch.testing.assert_close(student.synth(average), base.synth(average), atol=1e-4, rtol=0)


def test_several_codes_are_redirected_jointly_and_do_not_disturb_each_other(base, latents):
    w = codes(base, 1, 2, 3, 4, 5, 6)
    student = copy.deepcopy(base)
    redirect(student, latents, w[:3], w[3:])
    torch.testing.assert_close(student.synth(w[:3]), base.synth(w[3:]), atol=1e-4, rtol=0)


def test_random_scores_spread_as_the_mahalanobis_length_says(base, latents):
    (w_u,) = codes(base, 1)
    v = latents.score_vectors(w_u[None], shrink=0.0)[0, 0]
    x = (w_u - latents.mean)[0]
    length = (x @ torch.linalg.solve(latents.covariance, x)).sqrt()
    scores = (codes(base, *range(200, 1200))[:, 0] - latents.mean[0]) @ v
    assert scores.std() == pytest.approx(1 / length.item(), rel=0.1) and (x @ v).item() == pytest.approx(1, abs=1e-4)


def test_a_row_that_is_the_average_is_left_alone(base, latents):
    w_u, w_t = codes(base, 1, 2)
    w_u = torch.cat([w_u[:2], base.w_avg[2:]])
    student = copy.deepcopy(base)
    redirect(student, latents, w_u[None], w_t[None])
    assert torch.equal(student.synthesis["style2"].weight, base.synthesis["style2"].weight)
    mixed = torch.cat([w_t[:2], base.w_avg[2:]])[None]
    torch.testing.assert_close(student.synth(w_u[None]), base.synth(mixed), atol=1e-4, rtol=0)


def test_layers_of_rows_that_do_not_decide_who_is_shown_stay_as_they_are(base, latents):
    w_u, w_t = codes(base, 1, 2)
    student = copy.deepcopy(base)
    student.deciding_rows = 1
    redirect(student, latents, w_u[None], w_t[None])
    changed = {name for name, value in student.state_dict().items() if not torch.equal(value, base.state_dict()[name])}
    assert changed and all(name.startswith("synthesis.style0.") for name in changed)


def test_whitened_random_codes_are_standard_normal(base, latents):
    u = latents.whiten(codes(base, *range(300, 1300)))[:, 0]
    assert u.square().mean().item() == pytest.approx(1, abs=0.1)
    torch.testing.assert_close(
        latents.mean + u[:, None] @ latents.spread, codes(base, *range(300, 1300)), atol=1e-3, rtol=0
    )


def test_a_folded_layer_reads_what_was_moved():
    random = torch.Generator().manual_seed(0)
    w, moves, scores, offsets = (torch.randn(shape, generator=random) for shape in ((7, 6), (2, 6), (2, 6), (2,)))
    layer = torch.nn.Linear(6, 5)
    right = layer(w + (w @ scores.T + offsets) @ moves)
    fold(layer, moves, scores, offsets)
    torch.testing.assert_close(layer(w), right)
