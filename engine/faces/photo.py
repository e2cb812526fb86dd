"""A photo as the user has it, to pixels as the engine wants them. Nothing is written anywhere."""

import io
import warnings

import numpy as np
from PIL import Image, ImageOps
from PIL.ExifTags import Base

from engine.core.errors import UserError

FORMATS = ("JPEG", "PNG", "WEBP")
MAX_PIXELS = 64_000_000
MAX_SIDE = 2048  # larger photos are reduced to this
MIN_SIDE = 32
UNREADABLE = "This is not an image we can read (HEIC?). Use JPG, PNG or WebP up to 10 MB."


class BadPhoto(UserError):
    """The file is no photo that can be used."""


def open_photo(content: bytes) -> np.ndarray:
    """A picture that is large enough to find a face in."""
    return open_picture(content, smallest=MIN_SIDE)


def open_picture(content: bytes, *, smallest: int = 1) -> np.ndarray:
    """Bytes of a JPG, PNG or WebP to HWC uint8: upright, over white where transparent, at most 2048 px long."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is below
            image = Image.open(io.BytesIO(content), formats=FORMATS)
            _check(*image.size, smallest)
            image.draft("RGB", (MAX_SIDE, MAX_SIDE))  # a large JPEG is decoded at a fraction of its size
            image.load()
            image = _over_white(ImageOps.exif_transpose(_reduced(image)))
    except UserError:
        raise
    except Exception as error:  # Pillow's readers trip over a damaged file in more ways than can be listed
        raise BadPhoto(UNREADABLE) from error
    if max(image.size) > MAX_SIDE:
        image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
    return np.array(image)


def _check(width: int, height: int, smallest: int) -> None:
    if width * height > MAX_PIXELS:
        raise BadPhoto(
            f"This photo has {width} x {height} pixels; use one of at most {MAX_PIXELS // 1_000_000} million."
        )
    if min(width, height) < smallest:
        raise BadPhoto(f"This photo has only {width} x {height} pixels; use one of at least 256 px.")


def _reduced(image: Image.Image) -> Image.Image:
    """Nearer to the side it will have, by a whole factor: whatever follows makes copies, and of 64 million pixels they
    would take more than a gigabyte."""
    factor, turned = max(1, max(image.size) // MAX_SIDE), image.getexif().get(Base.Orientation, 1)
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):  # 16-bit greyscale: keep the high byte
        pixels = np.asarray(image)[::factor, ::factor]
        image = Image.fromarray((pixels / 257).clip(0, 255).astype(np.uint8))
    elif factor > 1:
        if image.mode in ("1", "P"):
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
        image = image.reduce(factor)
    image.getexif()[Base.Orientation] = turned
    return image


def _over_white(image: Image.Image) -> Image.Image:
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")
