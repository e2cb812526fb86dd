import math
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.core.errors import UserError
from engine.generators.tiny import Tiny
from engine.identity.targets import choose, draw, neighbour_offset, opposite
from engine.redirect import Latents

UNITS = Path(__file__).resolve().parent / "data" / "guide_units.npz"


@pytest.fixture(scope="module")
def units():
    with np.load(UNITS) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture(scope="module")
def base():
    return Tiny().requires_grad_(False)


@pytest.mark.parametrize("distance", [0, 10, 30, 50])
def test_the_opposite_face_is_the_published_one(units, distance):
    ours = opposite(units["w_avg"], units["w_u"], float(distance))
    torch.testing.assert_close(ours, units[f"w_target_d{distance}"], atol=1e-6, rtol=0)


def test_neighbours_and_their_targets_are_the_published_ones(units):
    delta = neighbour_offset(units["w_u"], units["w_ra"], units["alpha"].float())
    assert delta.dtype == torch.float32
    torch.testing.assert_close(delta, units["delta_f64"].float(), atol=1e-6, rtol=0)
    torch.testing.assert_close(units["w_u"] + delta, units["w_u_adj_f64"].float(), atol=1e-6, rtol=0)
    target = units["w_target_d30"] + delta
    torch.testing.assert_close(target, units["w_target_adj_f64"].float(), atol=1e-6, rtol=0)


def test_the_opposite_lies_the_asked_distance_from_the_average(base):
    latents = Latents.of(base)
    w_u = base.map(base.sample_z([3]))[0]
    w_t = choose(base, latents, w_u, "opposite", 0.8, torch.Generator().manual_seed(0))
    far = torch.linalg.vector_norm(w_t - latents.mean) / (latents.radius * math.sqrt(base.num_ws))
    assert far.item() == pytest.approx(0.8, rel=1e-4)


def test_the_nearest_stranger_is_a_random_face_beyond_the_distance(base):
    latents, random = Latents.of(base), torch.Generator().manual_seed(0)
    w_u = base.map(base.sample_z([3]))[0]
    w_t = choose(base, latents, w_u, "stranger", 0.8, random)
    assert torch.linalg.vector_norm(w_t - w_u) >= 0.8 * latents.radius * math.sqrt(base.num_ws)


def test_the_average_face_is_refused_with_the_way_out(base):
    with pytest.raises(UserError, match="choose another photo"):
        choose(base, Latents.of(base), base.w_avg.clone(), "opposite", 0.8, torch.Generator())


def test_mixed_codes_have_rows_of_two_faces_and_plain_ones_of_one(base):
    plain = draw(base, 20, torch.Generator().manual_seed(1))
    mixed = draw(base, 20, torch.Generator().manual_seed(1), mixed=1.0)
    assert (plain == plain[:, :1]).all()
    assert not (mixed == mixed[:, :1]).all(dim=(1, 2)).any()
