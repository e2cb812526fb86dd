"""A feature is changed where it is, and the rest of the picture stays."""

from dataclasses import replace

import pytest
import torch

from engine.core.events import Progress
from engine.directions.direction import Direction
from engine.directions.region import Canvas, region
from engine.directions.sight import Eye, Seen, Sight
from engine.directions.targets import Way, targets_by_sight
from engine.generators.tiny import Tiny
from tests.test_feature import ended

SIDE = 16


def noisy(count, where=(), seed=0):
    """Maps of noise in which a pattern of channels is added to some squares of 4 px."""
    maps = torch.randn(count, 6, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
    for row, column in where:
        maps[:, :3, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 1.0
    return maps


def test_a_region_is_where_samples_with_the_feature_can_be_told():
    found = region(noisy(120, [(3, 3)]), noisy(120, seed=1))
    assert found.shape == (8, 8) and (found[6:, 6:] > 0.9).all()
    found[6:, 6:] = 0
    assert found.max() == 0


def test_a_feature_that_is_told_everywhere_is_everywhere():
    every = [(row, column) for row in range(4) for column in range(4)]
    assert (region(noisy(120, every), noisy(120, seed=1)) == 1).all()


def test_samples_that_tell_nothing_leave_the_feature_everywhere():
    assert (region(noisy(24), noisy(24, seed=1)) == 1).all()


def test_the_picture_outside_of_a_region_is_the_old_one_bit_for_bit():
    old, new = noisy(2), noisy(2, seed=1)
    cover = torch.zeros(2, 1, 4, 4)
    cover[:, :, 3, 3] = 1
    pictures, maps = Canvas(old, old, cover).painted(new, new)
    assert torch.equal(pictures, maps) and torch.equal(pictures[..., :8, :], old[..., :8, :])
    assert torch.equal(pictures[..., 14:, 14:], new[..., 14:, 14:])


def test_an_eye_sees_what_was_painted_onto_a_picture():
    tiny, eye = Tiny().eval().requires_grad_(False), Eye(16)
    old, new = (tiny.map(tiny.sample_z([seed]))[:, 0] for seed in (1, 2))
    seen, other = eye.look(tiny, old), eye.look(tiny, new)
    for part, same in ((0.0, seen), (1.0, other)):
        canvas = Canvas(seen.pictures, seen.maps, torch.full((1, 1, 1, 1), part))
        torch.testing.assert_close(eye.look(tiny, new, canvas).looks, same.looks)


@pytest.mark.parametrize("is_enough", [True, False])
def test_the_whole_picture_changes_only_where_changing_the_region_is_not_enough(is_enough):
    """Pictures of two pixels: the first shows the feature, and so does the second where a region is not enough."""
    codes = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    codes[:, 1] = codes[:, 0] + 1

    def look(pictures):
        pixels = pictures.flatten(1)
        return pixels if is_enough else pixels.amax(1, keepdim=True).expand(-1, 2)

    def seen(pictures):
        return Seen(pictures.flatten(1), look(pictures), pictures, pictures)

    pool = seen(codes.view(-1, 1, 1, 2))
    weight = torch.tensor([1.0, 0.0])
    sight = Sight("x", weight, 0.0, torch.zeros(2), torch.ones(2), gate=0.5, clear=0.0, auc=1.0)
    figures = {"gate": 0.5, "land": -1.0, "sigma": 1.0, "auc": 1.0, "cosine": 1.0}
    way = Way([Direction("x", weight, torch.ones(2), torch.zeros(2), **figures)], 1, 1)
    flagged = pool.of(sight.flags(pool.looks))

    def watch(moved, note, onto):
        yield Progress(0, 1, note=note)
        pictures = moved[:, 0].view(-1, 1, 1, 2)
        return replace(seen(onto.painted(pictures, pictures)[0]), codes=moved)

    first = torch.tensor([[[1.0, 0.0]]])  # the region is the first pixel
    shown = ended(targets_by_sight(flagged, [way], [sight], watch, regions=first)).pictures.flatten(1)
    assert (shown[:, 0] < 0.5).all()
    assert torch.equal(shown[:, 1], flagged.codes[:, 1]) == is_enough
