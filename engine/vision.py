"""The only file that imports torchvision, lpips, facenet_pytorch and torchmetrics, so that the shim always runs first.

PyPI's torchvision is a CUDA build: beside a CPU torch its native operators cannot be loaded and its import fails, and
with it that of every package that needs it. The shim declares the operators the import looks for and gives `nms` a
Python body. Where the native operators are there it does nothing.
"""

import importlib.machinery
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_library: torch.library.Library | None = None  # kept alive: the operators vanish with the object


def greedy_nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Keep the best box, drop what overlaps it, repeat. Boxes are x1 y1 x2 y2."""
    order, keep = scores.argsort(descending=True), []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while order.numel():
        best, rest = order[0], order[1:]
        keep.append(best)
        low = torch.maximum(boxes[best, :2], boxes[rest, :2])
        high = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        inter = (high - low).clamp(min=0).prod(dim=1)
        order = rest[inter / (area[best] + area[rest] - inter) <= threshold]
    return torch.stack(keep) if keep else torch.empty(0, dtype=torch.long, device=boxes.device)


def native_ops_present() -> bool:
    """Whether torchvision's compiled operators can be loaded; asks without importing torchvision."""
    package = importlib.util.find_spec("torchvision")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("torchvision is not installed; run 'pip install -r requirements.txt'")
    loader = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES)
    compiled = importlib.machinery.FileFinder(str(Path(package.origin).parent), loader).find_spec("_C")
    if compiled is None:
        return False
    try:
        torch.ops.load_library(compiled.origin)
    except (ImportError, OSError):  # it wants a CUDA torch
        return False
    return hasattr(torch.ops.torchvision, "nms")


def ensure_ops() -> bool:
    """True if the stand-in is in place, False if the native operators are."""
    global _library  # noqa: PLW0603 (one per process, as the operators are)
    if _library is None and not native_ops_present():
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.impl("nms", greedy_nms, "CompositeExplicitAutograd")
        _library = library
        import torchvision.extension

        torchvision.extension._has_ops = lambda: True
    return _library is not None


def lpips_network(net: str, trunk: dict[str, Tensor]) -> nn.Module:
    """The lpips package's own network (linear heads v0.1 from its wheel) on a trunk of real weights, frozen.

    It is built without storage first: its VGG16 would otherwise draw 138 million random numbers to throw them away.
    """
    import lpips

    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # lpips still says `pretrained` to torchvision
        model = lpips.LPIPS(net=net, pnet_rand=True, pretrained=False, verbose=False)
    model.scaling_layer = lpips.ScalingLayer()
    heads = Path(lpips.__file__).parent / "weights" / "v0.1" / f"{net}.pth"
    state = torch.load(heads, map_location="cpu", weights_only=True)
    convolutions = [name for name, module in model.net.named_modules() if isinstance(module, nn.Conv2d)]
    for index, name in enumerate(convolutions):
        state |= {f"net.{name}.{part}": trunk[f"conv{index}.{part}"] for part in ("weight", "bias")}
    model.load_state_dict(state, strict=False, assign=True)
    assert not any(tensor.is_meta for tensor in model.state_dict().values()), "a weight of LPIPS was not filled"
    return model.eval().requires_grad_(False)


def face_detector(device: torch.device, min_face: int) -> Any:
    """facenet-pytorch's MTCNN, whose weights lie in its wheel. `detect` gives boxes, probabilities, five points."""
    from facenet_pytorch import MTCNN

    return MTCNN(keep_all=True, min_face_size=min_face, device=device).eval().requires_grad_(False)


def published_data(name: str) -> Any:
    """One of torchvision's readers of published data sets, by its name."""
    import torchvision.datasets

    return getattr(torchvision.datasets, name)


ensure_ops()
