"""Pictures with printed words for the models that look for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Pixels = npt.NDArray[np.float32]

_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)

WORDS = [
    (28, 40, 30, "Bread"),
    (170, 90, 24, "and butter"),
    (40, 170, 36, "3.50 EUR"),
    (150, 260, 20, "open until six"),
]
"""Where, how large, and what."""


def signs() -> Image.Image:
    """A board of 320 x 320 pixels with words."""
    image = Image.new("RGB", (320, 320), (214, 206, 190))
    draw = ImageDraw.Draw(image)
    for x, y, size, text in WORDS:
        draw.text((x, y), text, fill=(40, 36, 32), font=ImageFont.load_default(size))
    return image


def page(turned: int) -> Image.Image:
    """A page of print, turned against the clock by some degrees."""
    image = Image.new("RGB", (448, 448), "white")
    draw = ImageDraw.Draw(image)
    draw.text((30, 20), "A day in the harbour", fill="black", font=ImageFont.load_default(30))
    for line in range(14):
        text = "The boats come home before the wind turns"[line:] + " and the nets are dry"
        draw.text((30, 70 + 26 * line), text[:48], fill="black", font=ImageFont.load_default(16))
    return image.rotate(turned).resize((224, 224), Image.Resampling.BILINEAR)


def line_of_text(text: str, *, upside_down: bool) -> Image.Image:
    """A line as it is cut out of a picture: 48 pixels high."""
    image = Image.new("RGB", (192, 48), "white")
    font = ImageFont.load_default(26)
    ImageDraw.Draw(image).text((10, 7), text, fill="black", font=font)
    return image.rotate(180) if upside_down else image


def normalised(image: Image.Image) -> Pixels:
    """One row with ImageNet's mean and deviation, colours first."""
    values = (np.asarray(image, np.float32) / 255 - _MEAN) / _DEVIATION
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None])


def centred(image: Image.Image) -> Pixels:
    """One row from -1 to 1, colours first."""
    values = np.asarray(image, np.float32) / 127.5 - 1
    return np.ascontiguousarray(values.transpose(2, 0, 1)[None])
