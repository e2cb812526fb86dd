"""Putting a face where a network expects it, from five points: eyes, nose tip, mouth corners (left to right)."""

import numpy as np
from PIL import Image, ImageFilter

# Where the five points lie in an aligned image, in pixels of its side.
ARCFACE = (
    112,
    np.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]),
)
# dlib's 150 px chip with padding 0.25: 25 + 100 times its mean face (eye centres, nose tip, mouth corners).
DLIB = (150, np.array([[47.549, 46.599], [100.476, 46.599], [74.013, 76.563], [50.415, 103.023], [97.610, 103.023]]))


def similarity(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The turn, scale and shift [2, 3] that takes `source` nearest to `target` (Umeyama's least squares)."""
    source_mean, target_mean = source.mean(0), target.mean(0)
    a, b = source - source_mean, target - target_mean
    u, s, vt = np.linalg.svd(b.T @ a)
    d = np.array([1.0, np.sign(np.linalg.det(u @ vt))])
    turn = (s * d).sum() / (a**2).sum() * (u * d) @ vt
    return np.column_stack([turn, target_mean - turn @ source_mean])


def five_point(pixels: np.ndarray, points: np.ndarray, template: tuple[int, np.ndarray]) -> np.ndarray:
    """The face of an HWC uint8 image, aligned to a template such as ARCFACE or DLIB."""
    size, target = template
    back = similarity(target, points)  # from the aligned image to the photo
    corners = np.array([[0, 0], [0, size], [size, size], [size, 0]]) @ back[:, :2].T + back[:, 2]
    image, corners = _near(Image.fromarray(pixels), corners, size)
    return _quad(image, corners, size)


def ffhq(pixels: np.ndarray, points: np.ndarray, size: int) -> np.ndarray:
    """The face aligned as FFHQ is: HWC uint8 of `size`. What lies outside the photo is mirrored and blurred."""
    quad = ffhq_quad(points)
    image, quad = _near(Image.fromarray(pixels), quad, size)
    image, quad = _padded(image, quad)
    return _quad(image, quad, size)


def ffhq_quad(points: np.ndarray) -> np.ndarray:
    """FFHQ's square as four corners (top left, then counter-clockwise), from the eyes and the mouth corners."""
    eyes, mouth = points[:2].mean(0), points[3:].mean(0)
    eye_to_eye, eye_to_mouth = points[1] - points[0], mouth - eyes
    x = eye_to_eye - eye_to_mouth[::-1] * [-1, 1]
    x *= max(np.hypot(*eye_to_eye) * 2.0, np.hypot(*eye_to_mouth) * 1.8) / np.hypot(*x)
    y = x[::-1] * [-1, 1]
    centre = eyes + eye_to_mouth * 0.1
    return np.stack([centre - x - y, centre - x + y, centre + x + y, centre + x - y])


def _near(image: Image.Image, quad: np.ndarray, size: int) -> tuple[Image.Image, np.ndarray]:
    """Shrinks and crops a large photo to what is needed around the quad."""
    shrink = int(np.hypot(*(quad[3] - quad[0])) / size * 0.5)
    if shrink > 1:
        image, quad = image.reduce(shrink), quad / shrink
    border = max(round(np.hypot(*(quad[3] - quad[0])) * 0.1), 3)
    low = np.maximum(np.floor(quad.min(0)).astype(int) - border, 0)
    high = np.minimum(np.ceil(quad.max(0)).astype(int) + border, image.size)
    return image.crop((*low, *high)), quad - low


def _padded(image: Image.Image, quad: np.ndarray) -> tuple[Image.Image, np.ndarray]:
    """Where the quad leaves the photo: mirrored edges that fade into blur and then into the median colour."""
    side = np.hypot(*(quad[3] - quad[0]))
    border = max(round(side * 0.1), 3)
    low = np.maximum(np.ceil(-quad.min(0)).astype(int) + border, 0)
    high = np.maximum(np.ceil(quad.max(0) - image.size).astype(int) + border, 0)
    if max(*low, *high) <= border + 2:
        return image, quad
    low, high = np.maximum(low, round(side * 0.3)), np.maximum(high, round(side * 0.3))
    pixels = np.pad(np.asarray(image), ((low[1], high[1]), (low[0], high[0]), (0, 0)), "reflect").astype(np.float32)
    height, width = pixels.shape[:2]
    y, x = np.ogrid[:height, :width]
    depth = np.maximum(
        1 - np.minimum(x / low[0], (width - 1 - x) / high[0]), 1 - np.minimum(y / low[1], (height - 1 - y) / high[1])
    )[..., None]
    soft = Image.fromarray(pixels.astype(np.uint8)).filter(ImageFilter.GaussianBlur(float(side) * 0.02))
    pixels += (np.asarray(soft, np.float32) - pixels) * np.clip(depth * 3 + 1, 0, 1)
    pixels += (np.median(pixels, axis=(0, 1)) - pixels) * np.clip(depth, 0, 1)
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8)), quad + low


def _quad(image: Image.Image, quad: np.ndarray, size: int) -> np.ndarray:
    """The pixels inside four corners, resampled; where it shrinks, drawn larger and reduced, so nothing aliases."""
    times = int(np.clip(np.ceil(np.hypot(*(quad[3] - quad[0])) / size), 1, 4))
    drawn = image.transform((size * times,) * 2, Image.Transform.QUAD, tuple(quad.ravel()), Image.Resampling.BILINEAR)
    return np.asarray(drawn.reduce(times))
