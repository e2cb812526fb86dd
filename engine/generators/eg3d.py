"""EG3D (Chan et al., CVPR 2022): StyleGAN2 draws three feature planes, a camera looks at them, the view is enlarged.

Under the names and shapes of the published networks; they have 256 px planes and w_dim 512, ours may have others.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.core.errors import UserError
from engine.generators import architectures, mapped
from engine.generators.cameras import intrinsics, look_at, rays
from engine.generators.decoder import Decoder
from engine.generators.layers import FullyConnected, fir_filter
from engine.generators.mapped import MappedGenerator, full_precision
from engine.generators.render import Draws, Rendering, render, setting
from engine.generators.stylegan2 import Block, Noise, StyleGAN2
from engine.generators.triplane import sampler

CHANNELS = 32  # of one plane, and of the rendered view


@dataclass(frozen=True)
class Enlarger:
    """A published super-resolution module: by how much, whether its first block doubles, and its widths."""

    factor: int
    doubles_first: bool
    widths: tuple[int, int]
    has_filter: bool = True  # an unused one at its top level
    shrinks: bool = True  # also resizes views that are larger than its input


ENLARGERS = {
    "SuperresolutionHybrid8XDC": Enlarger(4, True, (256, 128), has_filter=False),
    "SuperresolutionHybrid8X": Enlarger(4, True, (128, 64)),
    "SuperresolutionHybrid4X": Enlarger(2, False, (128, 64), shrinks=False),
    "SuperresolutionHybrid2X": Enlarger(2, False, (128, 64)),
}


class SuperResolution(nn.Module):
    """Two StyleGAN2 blocks that read only the last row of w."""

    def __init__(self, kind: Enlarger, w_dim: int, side: int, *, clamp: float | None, antialias: bool) -> None:
        super().__init__()
        self.kind, self.side, self.antialias = kind, side // kind.factor, antialias
        first, second = kind.widths
        if kind.has_filter:
            self.register_buffer("resample_filter", fir_filter())
        self.block0 = Block(CHANNELS, first, w_dim, side // 2, 3, up=kind.doubles_first, clamp=clamp)
        self.block1 = Block(first, second, w_dim, side, 3, clamp=clamp)

    def forward(self, view: Tensor, w: Tensor, noise: Noise) -> Tensor:
        if view.shape[2] < self.side or (view.shape[2] > self.side and self.kind.shrinks):
            sides = (self.side, self.side)
            view = F.interpolate(view, sides, mode="bilinear", align_corners=False, antialias=self.antialias)
        w = w[:, -1:].expand(-1, 3, -1).to(view.dtype)
        x, image = self.block0(view, view[:, :3], w, noise)
        return self.block1(x, image, w, noise)[1]


@dataclass(frozen=True)
class View:
    """What one camera sees: the enlarged picture (None if not asked for), the rendered one, depths, all channels."""

    image: Tensor | None
    image_raw: Tensor
    image_depth: Tensor
    features: Tensor


@architectures.register("eg3d")
class EG3D(MappedGenerator):
    """Settings under their published names; `plane_resolution` is ours. Features are the planes [n, 96, h, w].

    Offered sides are the rendered view and the enlarged one. Depth samples are jittered by the same fixed numbers at
    every call, so that a code always gives the same picture, in any batch.
    """

    editable = ("backbone.synthesis.*",)
    is_3d = True
    optional_tensors = (
        "dataset_label_std",
    )  # published training adds it; kept where it is, not missed where it is not

    def __init__(
        self,
        z_dim: int,
        c_dim: int,
        w_dim: int,
        img_resolution: int,
        img_channels: int,
        sr_num_fp16_res: int = 0,
        mapping_kwargs: Mapping[str, object] | None = None,
        rendering_kwargs: Mapping[str, object] | None = None,
        sr_kwargs: Mapping[str, object] | None = None,  # published, without effect on the modules
        neural_rendering_resolution: int = 64,
        plane_resolution: int = 256,
        **options: object,
    ) -> None:
        super().__init__()
        self.config = {"z_dim": z_dim, "c_dim": c_dim, "w_dim": w_dim, "img_resolution": img_resolution}
        self.config |= {"img_channels": img_channels, "sr_num_fp16_res": sr_num_fp16_res}
        self.config |= {
            "mapping_kwargs": {"num_layers": 2} | dict(mapping_kwargs or {}),
            "sr_kwargs": dict(sr_kwargs or {}),
        }
        self.config |= {"rendering_kwargs": dict(rendering_kwargs or {}), "plane_resolution": plane_resolution}
        self.config |= {"neural_rendering_resolution": neural_rendering_resolution} | options
        if c_dim != 25:
            raise UserError(f"c_dim {c_dim}: EG3D is conditioned on a camera of 25 numbers")
        kwargs = self.config["rendering_kwargs"]
        self.rendering = Rendering.of(kwargs)
        self.backbone = StyleGAN2(
            z_dim, c_dim, w_dim, plane_resolution, 3 * CHANNELS, self.config["mapping_kwargs"], **options
        )
        self.z_dim, self.c_dim, self.w_dim, self.num_ws = z_dim, c_dim, w_dim, self.backbone.num_ws
        self.size, raw = img_resolution, neural_rendering_resolution
        self.sizes = (raw, self.size) if raw < self.size else (self.size,)
        name = str(setting(kwargs, "superresolution_module")).rpartition(".")[2]
        if name not in ENLARGERS:
            raise UserError(f"superresolution_module {name!r}: known are {', '.join(ENLARGERS)}")
        clamp, antialias = (256 if sr_num_fp16_res > 0 else None), bool(setting(kwargs, "sr_antialias"))
        self.superresolution = SuperResolution(ENLARGERS[name], w_dim, img_resolution, clamp=clamp, antialias=antialias)
        self.decoder = Decoder(CHANNELS, kwargs.get("decoder_lr_mul", 1.0))

    @property
    def mapping(self) -> mapped.Mapping:
        return self.backbone.mapping

    def _load_from_state_dict(self, state: dict, prefix: str, *rest) -> None:
        given = state.get(f"{prefix}dataset_label_std")
        self._buffers.pop("dataset_label_std", None)
        if given is not None:
            self.register_buffer("dataset_label_std", torch.empty_like(given, device=self.w_avg.device))
        super()._load_from_state_dict(state, prefix, *rest)

    def affines(self) -> list[tuple[FullyConnected, int]]:
        last = [(reader, self.num_ws - 1) for reader in self.superresolution.block0.readers]
        last += [(reader, self.num_ws - 1) for reader in self.superresolution.block1.readers]
        return self.backbone.affines() + last

    def camera(self, n: int, yaw: float = 0.0, pitch: float = 0.0) -> Tensor:
        """[n, 25]: from the network's own distance, at its own pivot."""
        kwargs = self.config["rendering_kwargs"]
        pose = look_at(yaw, pitch, setting(kwargs, "avg_camera_pivot"), setting(kwargs, "avg_camera_radius"))
        label = torch.cat([pose.flatten(), intrinsics().flatten()])
        return label.to(self.w_avg).expand(n, -1)

    def usual_condition(self, n: int) -> Tensor:
        """A frontal camera, for a network that reads it."""
        zeroed = setting(self.config["rendering_kwargs"], "c_gen_conditioning_zero")
        return super().usual_condition(n) if zeroed else self.camera(n)

    def map(self, z: Tensor, *, psi: float = 1.0, c: Tensor | None = None, cutoff: int | None = None) -> Tensor:
        """`c` [n, 25] is the camera to condition on, frontal if not given."""
        kwargs = self.config["rendering_kwargs"]
        c = self.usual_condition(len(z)) if c is None else c
        c = torch.zeros_like(c) if setting(kwargs, "c_gen_conditioning_zero") else c
        return super().map(z, psi=psi, c=c * kwargs.get("c_scale", 0), cutoff=cutoff)

    def planes(self, w: Tensor, *, noise: str = "const", random: torch.Generator | None = None) -> Tensor:
        return self.backbone.render(w, noise=noise, random=random)[1]

    @full_precision
    def query(self, planes: Tensor, xyz: Tensor) -> tuple[Tensor, Tensor]:
        """Colours [n, p, 32] and raw densities [n, p] of points [n, p, 3]."""
        return self.decoder(sampler(planes.unflatten(1, (3, CHANNELS)), self.rendering.box_warp)(xyz))

    @full_precision
    def view(
        self,
        planes: Tensor,
        w: Tensor,
        camera: Tensor,
        *,
        resolution: int | None = None,
        rendering: Rendering | None = None,
        draws: Draws | None = None,
        enlarge: bool = True,
    ) -> View:
        """Resolution, rendering settings and draws hold for this call only."""
        side, options = resolution or self.config["neural_rendering_resolution"], rendering or self.rendering
        if draws is None:
            draws = Draws.of(torch.Generator().manual_seed(0), 1, side * side, options)
        rows = rays(camera.to(planes), side)
        seen = render(planes.unflatten(1, (3, CHANNELS)), self.decoder, *rows, options, draws.to(planes))
        features, depth = seen[0].mT.unflatten(2, (side, side)), seen[1].unflatten(1, (1, side, side))
        noise = Noise(setting(self.config["rendering_kwargs"], "superresolution_noise_mode"))
        image = self.superresolution(features, w, noise) if enlarge else None
        return View(image, features[:, :3], depth, features)

    @full_precision
    def render(
        self,
        w: Tensor,
        *,
        size: int | None = None,
        yaw: float = 0.0,
        noise: str = "const",
        random: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        enlarge = self.pick_size(size) == self.size
        planes = self.planes(w, noise=noise, random=random)
        view = self.view(planes, w, self.camera(len(w), yaw), enlarge=enlarge)
        return planes, view.image if enlarge else view.image_raw
