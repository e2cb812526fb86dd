"""The z-only base is the published DCGAN, and one picture never depends on the others in its batch."""

import pytest
import torch

from engine import assets
from engine.generators import bases
from engine.generators.dcgan import Dcgan, quickly


@pytest.fixture
def small():
    """The same in every process: some draws make gradients so small that roundings show."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Dcgan(z_dim=6, channels=(8, 6, 4))


def test_each_layer_doubles_the_side(small):
    assert small.size == 32
    features, image = small.render(small.map(small.sample_z([0, 1])))
    assert features.shape == (2, 4, 16, 16)
    assert image.shape == (2, 3, 32, 32)
    assert image.abs().max() <= 1


def test_asking_it_to_train_does_not_mix_the_pictures_of_a_batch(small):
    w = small.map(small.sample_z([0, 1, 2]))
    small.train()
    together = small.synth(w)
    assert torch.allclose(small.synth(w[:1]), together[:1], atol=1e-6)
    assert small.main[1].num_batches_tracked == 0


def test_truncation_pulls_z_towards_zero(small):
    z = small.sample_z([0])
    assert torch.allclose(small.map(z, psi=0.5)[:, 0], z / 2)


@pytest.mark.parametrize("samples", [1, 20])  # few places at the first maps, and many at all
def test_in_bfloat16_picture_and_gradients_are_those_of_its_layers_up_to_rounding(small, samples):
    w, weights = small.map(small.sample_z(range(samples))), list(small.main.parameters())
    found = []
    for run in (small.synth, lambda w: torch.tanh(small.main(w[:, 0, :, None, None]))):
        with torch.autocast("cpu", torch.bfloat16, enabled=run == small.synth):
            picture = run(w).float()
        found.append((picture.detach(), *torch.autograd.grad(picture.square().mean(), weights)))
    for quick, exact in zip(*found, strict=True):
        assert quick.dtype == torch.float32 and (quick - exact).norm() <= 0.05 * exact.norm()  # 4 convs of 8 bits


def test_in_bfloat16_the_code_is_not_rounded(small):
    code = small.sample_z([0])[..., None, None]
    with torch.autocast("cpu", torch.bfloat16):
        quick = quickly(small.main[0], code)
    torch.testing.assert_close(quick, small.main[0](code), atol=1e-6, rtol=1e-5)


@pytest.mark.assets
@pytest.mark.skipif(not assets.is_present("dcgan"), reason="the DCGAN is not fetched")
def test_all_published_weights_are_in_use_and_faces_vary():
    model, published = bases["faces64"].load(), assets.load("dcgan")
    state = model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in published.items())
    left = set(state) - set(published)
    assert all(name == "w_avg" or name.endswith("num_batches_tracked") for name in left)
    with torch.no_grad():
        images = model.synth(model.map(model.sample_z(range(16))))
    assert images.shape == (16, 3, 64, 64)
    assert images.std(0).mean() > 0.2, "sixteen seeds, sixteen faces"
