import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.core.errors import UserError
from engine.faces.photo import BadPhoto, open_photo


def encoded(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def halves(width=80, height=60) -> Image.Image:
    """Red on the left, blue on the right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = pixels[:, width // 2 :, 2] = 200
    return Image.fromarray(pixels)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_three_formats_open_as_hwc_bytes(kind):
    pixels = open_photo(encoded(halves(), kind))
    assert pixels.shape == (60, 80, 3) and pixels.dtype == np.uint8
    assert pixels[30, 10, 0] > 150 and pixels[30, 70, 2] > 150


def test_a_photo_taken_sideways_comes_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate 90 degrees clockwise
    pixels = open_photo(encoded(halves(), "JPEG", exif=exif))
    assert pixels.shape == (80, 60, 3)
    assert pixels[5, 30, 0] > 150 and pixels[75, 30, 2] > 150  # left became top


def test_a_large_photo_that_is_reduced_comes_upright_too():
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = open_photo(encoded(halves(4400, 2300), "PNG", exif=exif))
    assert pixels.shape[0] > pixels.shape[1] and pixels[5, 30, 0] > 150 and pixels[-5, 30, 2] > 150


def test_transparent_parts_become_white():
    image = halves().convert("RGBA")
    image.putalpha(Image.fromarray(np.repeat(np.array([[0, 255]], np.uint8), 60, 0).repeat(40, 1)))
    pixels = open_photo(encoded(image))
    assert pixels[30, 10].tolist() == [255, 255, 255] and pixels[30, 70].tolist() == [0, 0, 200]
    palette = halves().quantize(4)
    pixels = open_photo(encoded(palette, transparency=palette.getpixel((10, 30))))
    assert pixels[30, 10].tolist() == [255, 255, 255]


@pytest.mark.parametrize("mode", ["L", "LA", "P", "CMYK", "I;16", "1"])
def test_other_colour_modes_become_rgb(mode):
    grey = np.tile(np.linspace(0, 255, 80).astype(np.uint8), (60, 1))
    if mode == "I;16":
        content = encoded(Image.fromarray(grey.astype(np.uint16) * 257))
    else:
        content = encoded(Image.fromarray(grey).convert(mode), "JPEG" if mode == "CMYK" else "PNG")
    pixels = open_photo(content)
    assert pixels.shape == (60, 80, 3) and pixels[30, 2].max() < 40 and pixels[30, 77].min() > 215


def test_a_large_photo_is_reduced_to_2048_px():
    pixels = open_photo(encoded(halves(5000, 2500), "JPEG"))
    assert max(pixels.shape) <= 2048 and pixels.shape[1] == pytest.approx(2 * pixels.shape[0], abs=2)


def bomb(side: int) -> bytes:
    """A PNG that claims to be `side` px square; its pixels are never reached."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [9_000, 100_000])
def test_a_photo_of_too_many_pixels_is_refused_before_it_is_decoded(side):
    with pytest.raises(BadPhoto, match=r"pixels; use one of at most 64 million|not an image we can read"):
        open_photo(bomb(side))


def test_a_tiny_photo_is_refused_with_its_size():
    with pytest.raises(BadPhoto, match="only 20 x 60 pixels"):
        open_photo(encoded(halves(20, 60)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an image",
        b"\0\0\0\x18ftypheic" + bytes(200),
        encoded(halves(), "GIF"),
        encoded(halves(), "JPEG")[:-300],
        encoded(halves(), "PNG")[:60],
    ],
    ids=["empty", "text", "heic", "gif", "half a jpeg", "half a png"],
)
def test_what_is_not_a_photo_is_refused_in_the_pages_words(content):
    with pytest.raises(BadPhoto, match=r"not an image we can read \(HEIC\?\)\. Use JPG, PNG or WebP up to 10 MB\."):
        open_photo(content)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2), st.integers(0, 10**6), st.binary(min_size=1, max_size=8))
def test_a_corrupted_photo_either_opens_or_is_refused(which, where, noise):
    content = bytearray(encoded(halves(), ("JPEG", "PNG", "WEBP")[which]))
    where %= len(content)
    content[where : where + len(noise)] = noise
    try:
        pixels = open_photo(bytes(content))
    except UserError:
        return
    assert pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8
