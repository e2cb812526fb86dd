"""Finding the faces in a photo: boxes, five points, how sure. The detector is facenet-pytorch's MTCNN."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from engine.core.errors import UserError
from engine.faces import align

SURE = 0.9  # a box below this is not called a face


class NoFace(UserError):
    """There is no face in the photo, or none that is sure enough."""


@dataclass(frozen=True, eq=False)
class Face:
    """One face of a photo, in its pixels."""

    box: np.ndarray  # [4] x1 y1 x2 y2
    points: np.ndarray  # [5, 2] left eye, right eye, nose, mouth corners, as seen in the image
    probability: float


@cache
def _detector(device: str, min_face: int) -> Any:
    from engine import vision

    return vision.face_detector(torch.device(device), min_face)


def find(pixels: np.ndarray, device: torch.device | str = "cpu") -> list[Face]:
    """The faces of an HWC uint8 image, the largest first; an empty list if there is none."""
    smallest = max(20, min(pixels.shape[:2]) // 12)  # smaller faces than this are bystanders, and looking costs time
    boxes, sure, points = _detector(str(device), smallest).detect(pixels, landmarks=True)
    if boxes is None:
        return []
    found = [
        Face(np.asarray(box, np.float64), np.asarray(five, np.float64), float(probability))
        for box, five, probability in zip(boxes, points, sure, strict=True)
        if probability >= SURE
    ]
    return sorted(found, key=lambda face: -np.prod(face.box[2:] - face.box[:2]))


def aligned(pixels: np.ndarray, size: int, which: int = 0, device: torch.device | str = "cpu") -> np.ndarray:
    """The chosen face of a photo, aligned as FFHQ is: HWC uint8 of `size`."""
    faces = find(pixels, device)
    if not faces:
        raise NoFace("No face found. Use a frontal photo.")
    if not 0 <= which < len(faces):
        raise UserError(f"face {which + 1} was asked for, but {len(faces)} found; choose one of them")
    return align.ffhq(pixels, faces[which].points, size)
