"""Our EG3D is the published one: same names, planes, views and pictures; and nothing asked for one call stays."""

import math
from dataclasses import replace

import pytest
import torch

from engine.core.errors import UserError
from engine.generators import architectures, render, triplane
from engine.generators.cameras import intrinsics, look_at, rays
from engine.generators.render import Draws, box_limits, coarse_depths, importance_depths, march, march_weights
from tests.parity import CODE, IMAGE, arrays, deviation, keys, shapes

RENDERING = {
    "disparity_space_sampling": False,
    "clamp_mode": "softplus",
    "superresolution_module": "training.superresolution.SuperresolutionHybrid2X",
    "c_gen_conditioning_zero": False,
    "c_scale": 1.0,
    "superresolution_noise_mode": "none",
    "decoder_lr_mul": 1.0,
    "sr_antialias": True,
    "depth_resolution": 12,
    "depth_resolution_importance": 12,
    "ray_start": 2.25,
    "ray_end": 3.3,
    "box_warp": 1,
    "avg_camera_radius": 2.7,
    "avg_camera_pivot": [0, 0, 0.2],
}
PUBLISHED = {"z_dim": 32, "c_dim": 25, "w_dim": 512, "img_resolution": 128, "img_channels": 3, "sr_num_fp16_res": 4}
PUBLISHED |= {"mapping_kwargs": {"num_layers": 2, "embed_features": 32, "layer_features": 64}, "channel_base": 1024}
PUBLISHED |= {"channel_max": 8, "conv_clamp": None, "neural_rendering_resolution": 16, "rendering_kwargs": RENDERING}
SMALL = PUBLISHED | {"w_dim": 8, "z_dim": 8, "mapping_kwargs": {}, "plane_resolution": 16, "img_resolution": 32}
SMALL |= {"channel_base": 64, "neural_rendering_resolution": 8}
FULL = {"z_dim": 512, "c_dim": 25, "w_dim": 512, "img_resolution": 512, "img_channels": 3, "conv_clamp": None}
FULL |= {"rendering_kwargs": RENDERING | {"superresolution_module": "a.SuperresolutionHybrid8XDC"}}


@pytest.fixture(scope="module")
def published():
    """The published network, what it gave, and its planes."""
    model = architectures["eg3d"](**PUBLISHED)
    model.load_state_dict(arrays("eg3d_tiny_state"))
    told = arrays("eg3d_tiny")
    with torch.no_grad():
        return model, told, model.planes(told["w"])


@pytest.fixture(scope="module")
def units():
    return arrays("eg3d_units")


@pytest.fixture
def small():
    torch.manual_seed(0)
    return architectures["eg3d"](**SMALL)


def test_names_and_shapes_are_the_published_ones():
    model = architectures["eg3d"](**PUBLISHED)
    assert shapes(model) == {key: shape for key, shape in keys("eg3d_tiny").items() if key != "dataset_label_std"}
    model.load_state_dict(arrays("eg3d_tiny_state"))
    assert shapes(model) == keys("eg3d_tiny")


def test_the_ffhq_network_has_the_published_names_and_size():
    with torch.device("meta"):
        model = architectures["eg3d"](**FULL)
    assert shapes(model) == keys("eg3d_full")
    assert sum(parameter.numel() for parameter in model.parameters()) == 30_662_136
    assert sum(parameter.numel() for parameter in model.backbone.synthesis.parameters()) == 28_207_533


def test_the_label_statistics_of_training_are_kept_where_they_are_and_not_missed_where_not(small):
    state = small.state_dict()
    small.load_state_dict(state | {"dataset_label_std": torch.arange(25.0)})
    assert torch.equal(small.state_dict()["dataset_label_std"], torch.arange(25.0))
    small.load_state_dict(state)
    assert "dataset_label_std" not in small.state_dict()


@torch.no_grad()
def test_codes_and_planes_are_the_published_ones(published):
    model, told, planes = published
    assert deviation(model.map(told["z"], c=told["c_cond"]), told["w"]) <= CODE
    assert deviation(model.map(told["z"], c=told["c_cond"], psi=0.7, cutoff=14), told["w_trunc07_cut14"]) <= CODE
    assert deviation(planes.flatten()[told["planes_flat_idx"]], told["planes_flat_val"]) <= IMAGE
    assert deviation(planes.mean((2, 3)), told["planes_mean"]) <= IMAGE


VIEWS = {
    "r16": {},
    "r16_noimp": {"depth_resolution_importance": 0},
    "r16_auto_white": {"ray_start": "auto", "ray_end": "auto", "white_back": True},
    "r16_disparity": {"disparity_space_sampling": True},
}


def drawn(told: dict, name: str) -> Draws:
    depth = told[f"{name}.u_strat"].squeeze(3)
    importance = told.get(f"{name}.u_imp", depth.new_zeros(*depth.shape[:2], 0))
    return Draws(depth, importance.reshape(*depth.shape[:2], -1))


@torch.no_grad()
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_the_published_ones(published, name):
    model, told, planes = published
    draws, n = drawn(told, name), len(told[f"{name}.image_depth"])
    options = replace(model.rendering, **VIEWS[name])
    view = model.view(planes[:n], told["w"][:n], told["c"][:n], rendering=options, draws=draws)
    assert deviation(view.image_raw, told[f"{name}.image_raw_before_sr"]) <= IMAGE
    assert deviation(view.image_depth, told[f"{name}.image_depth"]) <= IMAGE
    if f"{name}.image" in told:
        assert deviation(view.image, told[f"{name}.image"]) <= IMAGE


@torch.no_grad()
def test_a_view_as_large_as_the_enlarger_reads_is_the_published_one_and_not_changed_by_it(published):
    model, _, planes = published
    told = arrays("eg3d_tiny", whole=True)
    draws, c, w = drawn(told, "r64"), told["c"][:1], told["w"][:1]
    view = model.view(planes[:1], w, c, resolution=64, draws=draws)
    assert deviation(view.image_raw, told["r64.image_raw_before_sr"]) <= IMAGE
    assert deviation(view.image_depth, told["r64.image_depth"]) <= IMAGE
    assert deviation(view.image, told["r64.image"]) <= IMAGE
    alone = model.view(planes[:1], w, c, resolution=64, draws=draws, enlarge=False)
    assert torch.equal(alone.image_raw, view.image_raw)


@torch.no_grad()
def test_a_seeded_stream_is_read_in_the_published_order(published):
    model, told, planes = published
    draws = Draws.of(torch.Generator().manual_seed(123), 1, 256, model.rendering)
    view = model.view(planes[:1], told["w"][:1], told["c"][:1], draws=draws, enlarge=False)
    assert deviation(view.image_raw, told["seed123.image_raw"]) <= IMAGE
    assert deviation(view.image_depth, told["seed123.image_depth"]) <= IMAGE


@torch.no_grad()
def test_colours_and_densities_of_points_are_the_published_ones(published):
    model, told, planes = published
    colours, sigma = model.query(planes, told["query.xyz"])
    assert deviation(colours, told["query.rgb"]) <= IMAGE
    assert deviation(sigma[..., None], told["query.sigma"]) <= IMAGE


def test_cameras_and_rays_are_the_published_ones(units):
    for (yaw, pitch, *pivot, radius), expected in zip(units["cam.args"].tolist(), units["cam.cam2world"], strict=True):
        assert deviation(look_at(yaw, pitch, pivot, radius), expected) <= CODE
    for fov, expected in zip(units["cam.fov_deg"].tolist(), units["cam.K"], strict=True):
        assert deviation(intrinsics(fov), expected) <= CODE
    origins, directions = rays(units["rays.c"], 8)
    assert deviation(origins, units["rays.o"]) <= CODE
    assert deviation(directions, units["rays.d"]) <= CODE
    enter, leave = box_limits(origins, directions, 1)
    assert deviation(enter[..., None], units["box.tmin"]) <= CODE
    assert deviation(leave[..., None], units["box.tmax"]) <= CODE


def test_a_skewed_lens_bends_the_rays_as_a_matrix_does():
    lens = torch.tensor([[4.0, 0.3, 0.45], [0, 3.5, 0.55], [0, 0, 1]])
    _, found = rays(torch.cat([torch.eye(4).flatten(), lens.flatten()])[None], 4)
    centres = (torch.arange(4) + 0.5) / 4
    pixels = torch.stack([centres.repeat(4), centres.repeat_interleave(4), torch.ones(16)])
    expected = torch.linalg.solve(lens, pixels).T
    assert deviation(found[0], expected / expected.norm(dim=1, keepdim=True)) <= CODE


def test_marching_and_importance_are_the_published_ones(units):
    colours, sigma, depths = units["march.colors"], units["march.densities"][..., 0], units["march.depths"][..., 0]
    colour, depth = march(colours, sigma, depths)
    assert deviation(colour, units["march.rgb"]) <= CODE
    assert deviation(depth[..., None].clamp(depths.min(), depths.max()), units["march.depth"]) <= CODE
    assert deviation(march(colours, sigma, depths, white_back=True)[0], units["march.rgb_white"]) <= CODE
    assert deviation(march_weights(sigma, depths)[..., None], units["march.weights"]) <= CODE
    found = importance_depths(units["imp.depths"][..., 0], units["imp.weights"][..., 0], units["imp.u"].view(2, 10, 7))
    assert deviation(found[..., None], units["imp.out"]) <= CODE


def test_planes_are_read_as_published(units):
    found = triplane.sample_planes(units["plane.feat"], units["plane.xyz"], 1)
    assert deviation(found, units["plane.out"]) <= CODE


def test_planes_are_read_as_one_product_what_they_are_one_by_one_inside_and_outside():
    random = torch.Generator().manual_seed(0)
    planes = torch.randn(2, 3, 4, 5, 5, generator=random, dtype=torch.float64, requires_grad=True)
    xyz = 2 * torch.randn(2, 200, 3, generator=random, dtype=torch.float64)
    xyz[:, :3] = torch.tensor([[1.5, 1.5, 1.5], [-1.5, 0, 1.5], [1e6, -1e6, 0]])  # corners, and far away
    one, other = triplane.sample_planes(planes, xyz, 3).mean(1), triplane.sampler(planes, 3)(xyz)
    assert torch.allclose(one, other, atol=1e-12)
    weight = torch.randn(one.shape, generator=random, dtype=torch.float64)
    slopes = [torch.autograd.grad((found * weight).sum(), planes)[0] for found in (one, other)]
    assert torch.allclose(*slopes, atol=1e-12)


def test_rays_that_miss_the_box_take_the_farthest_start_as_their_end():
    origins = torch.tensor([[[0.0, 0, -3], [0.0, 0, -2], [5.0, 0, -3]]])
    directions = torch.tensor([[[0.0, 0, 1]] * 3])
    enter, leave = box_limits(origins, directions, 1)
    assert enter.tolist() == [[2.5, 1.5, -1]]
    assert leave.tolist() == [[3.5, 2.5, -2]]
    auto = replace(render.Rendering.of(RENDERING), ray_start="auto", ray_end="auto", depth_resolution=5)
    depths = coarse_depths(origins, directions, auto, torch.zeros(1, 3, 5))
    assert depths[0, 0].tolist() == pytest.approx([2.5, 2.75, 3, 3.25, 3.5])
    assert depths[0, 2].tolist() == pytest.approx([1.5, 1.75, 2, 2.25, 2.5])


def test_the_order_of_samples_along_a_ray_does_not_matter(units):
    colours, sigma, depths = units["march.colors"], units["march.densities"][..., 0], units["march.depths"][..., 0]
    turned = march(colours.flip(2), sigma.flip(2), depths.flip(2))
    assert deviation(turned[0], march(colours, sigma, depths)[0]) <= CODE


@torch.no_grad()
def test_a_code_gives_the_same_picture_in_any_batch_and_at_any_time(small):
    w = small.map(small.sample_z([1, 2, 3]))
    together = small.synth(w)
    assert torch.equal(small.synth(w), together)
    for i in range(3):
        assert deviation(small.synth(w[i : i + 1]), together[i : i + 1]) <= IMAGE


@torch.no_grad()
def test_what_is_asked_for_one_call_does_not_stay(small):
    w = small.map(small.sample_z([1]))
    planes, before, config = small.planes(w), small.synth(w), str(small.config)
    options = replace(small.rendering, depth_resolution_importance=0, white_back=True)
    view = small.view(planes, w, small.camera(1), resolution=24, rendering=options)
    assert view.image_raw.shape[-1] == 24
    assert str(small.config) == config
    assert torch.equal(small.synth(w), before)


def test_rays_in_parts_are_the_rays_at_once_and_so_are_their_gradients(small, monkeypatch):
    w = small.map(small.sample_z([1, 2])).detach().requires_grad_()
    found = []
    for points, kept in ((1 << 30, 1 << 30), (1000, 1 << 30), (1000, 0)):
        monkeypatch.setattr(render, "POINTS", points)
        monkeypatch.setattr(render, "KEPT", kept)
        image = small.synth(w, size=8)
        found.append((image.detach(), *torch.autograd.grad(image.square().sum(), (w, small.decoder.net[0].weight))))
    for whole, *others in zip(*found, strict=True):
        for parts in others:
            assert torch.allclose(whole, parts, rtol=1e-4, atol=1e-5 * whole.abs().max().item())


def test_gradients_are_those_of_finite_differences(small):
    """Through planes, coarse and fine samples, and both enlarging blocks. Where samples lie is not differentiated."""
    small = small.double()
    w = small.map(small.sample_z([1]).double()).detach()
    options = replace(small.rendering, depth_resolution_importance=0)
    weight = small.backbone.synthesis.b16.conv1.weight

    def loss():
        view = small.view(small.planes(w), w, small.camera(1), rendering=options)
        return view.image.square().sum() + view.image_depth.sum()

    loss().backward()
    start, direction = weight.detach().clone(), torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    ends = []
    with torch.no_grad():
        for step in (1e-6, -1e-6):
            weight.copy_(start + step * direction)
            ends.append(loss())
    assert torch.isclose((weight.grad * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-3)


@torch.no_grad()
def test_no_more_points_than_agreed_are_decoded_at_a_time(small, monkeypatch):
    monkeypatch.setattr(render, "POINTS", 1000)
    seen = []
    small.decoder.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0][..., 0].numel()))
    small.synth(small.w_avg.repeat(3, 1, 1))
    assert sum(seen) == 3 * 8 * 8 * 24
    assert max(seen) <= 1000


@torch.no_grad()
def test_yaw_turns_the_camera_around_the_pivot_of_the_network(small):
    w = small.map(small.sample_z([1]))
    assert deviation(small.synth(w, yaw=0.4), small.synth(w)) > 0.01
    camera = small.camera(1, yaw=0.4)[0, :16].view(4, 4)
    assert camera[:3, 3].norm() == pytest.approx(2.7)
    toward = torch.tensor([0, 0, 0.2]) - camera[:3, 3]
    assert deviation(camera[:3, 2], toward / toward.norm()) <= CODE
    assert small.camera(1)[0, :16].view(4, 4)[:3, 3].tolist() == pytest.approx([0, 0, 2.7], abs=1e-6)
    assert look_at(0, -0.2, [0, 0, 0], 1)[1, 3] == pytest.approx(math.sin(math.radians(7.3)), abs=1e-3)


@pytest.mark.parametrize("key", ["avg_camera_pivot", "avg_camera_radius"])
def test_a_network_that_does_not_say_where_its_head_is_cannot_be_turned(key):
    kwargs = {name: value for name, value in RENDERING.items() if name != key}
    model = architectures["eg3d"](**SMALL | {"rendering_kwargs": kwargs})
    with pytest.raises(UserError, match=key):
        model.synth(model.w_avg[None], yaw=0.1)


@pytest.mark.parametrize("key", ["depth_resolution", "box_warp", "superresolution_module", "clamp_mode"])
def test_settings_that_cannot_be_guessed_are_asked_for(key):
    kwargs = {name: value for name, value in RENDERING.items() if name != key}
    with pytest.raises(UserError, match=key):
        architectures["eg3d"](**SMALL | {"rendering_kwargs": kwargs})


@torch.no_grad()
@pytest.mark.parametrize(("change", "counts"), [({}, True), ({"c_gen_conditioning_zero": True}, False), (None, False)])
def test_the_condition_counts_unless_it_is_zeroed_or_has_no_scale(small, change, counts):
    kwargs = RENDERING | (change or {})
    if change is None:
        del kwargs["c_scale"]
    model = architectures["eg3d"](**SMALL | {"rendering_kwargs": kwargs})
    z = model.sample_z([5])
    differs = not torch.equal(model.map(z, c=model.camera(1, yaw=0.5)), model.map(z))
    assert differs == counts


@torch.no_grad()
@pytest.mark.parametrize(("module", "side"), [("2X", 32), ("4X", 32), ("8X", 64), ("8XDC", 64)])
def test_every_published_enlarger_makes_its_side(module, side):
    kwargs = RENDERING | {"superresolution_module": f"training.superresolution.SuperresolutionHybrid{module}"}
    model = architectures["eg3d"](**SMALL | {"rendering_kwargs": kwargs, "img_resolution": side})
    assert model.sizes == (8, side)
    assert model.synth(model.w_avg[None]).shape == (1, 3, side, side)
    assert model.synth(model.w_avg[None], size=8).shape == (1, 3, 8, 8)
    assert ("superresolution.resample_filter" in model.state_dict()) == (module != "8XDC")
