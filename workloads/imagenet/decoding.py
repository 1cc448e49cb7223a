"""One image's bytes to its pixels, whatever ImageNet holds: CMYK, PNG named .JPEG, bad EXIF."""

from __future__ import annotations

import io
import math
import struct
import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

AREAS = (0.08, 1.0)
"""Of a random crop, as a share of the image (Szegedy et al. 2015)."""

RATIOS = (3 / 4, 4 / 3)
TRIES = 10
UNREADABLE = (
    *(OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError, MemoryError),
    *(struct.error, Image.DecompressionBombError),
)
"""What damaged images make Pillow raise."""

Box = tuple[float, float, float, float]
RESIZE = 256 / 224
"""The shorter side of a scored image is so many times the crop's."""


class Place(NamedTuple):
    """Where an image's bytes are: all that follow `offset` where `size` is -1."""

    path: str
    offset: int = 0
    size: int = -1

    def read(self) -> bytes:
        """Its bytes."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


def random_crop(data: bytes, side: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A random part of the image, perhaps mirrored: uint8[side, side, 3].

    Raises one of UNREADABLE where it is no image.
    """
    image = _opened(data, side)
    box = _random_box(image.size, rng)
    part = image.resize((side, side), Image.Resampling.BILINEAR, box=box)
    pixels = np.asarray(part)
    return np.ascontiguousarray(pixels[:, ::-1]) if rng.random() < 0.5 else pixels


def center_crop(data: bytes, side: int) -> NDArray[np.uint8]:
    """The middle of the image: uint8[side, side, 3]; raises as `random_crop`."""
    image = _opened(data, side)
    width, height = image.size
    kept = min(width, height) / RESIZE
    left, top = (width - kept) / 2, (height - kept) / 2
    box = (left, top, left + kept, top + kept)
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR, box=box))


def _opened(data: bytes, side: int) -> Image.Image:
    """In RGB; a JPEG is decoded no finer than a crop can need. Damaged EXIF is not looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF, and of sizes that are drafted down
        image = Image.open(io.BytesIO(data))
        finest = math.ceil(2 * side * RESIZE)
        image.draft("RGB", (finest, finest))
        return image.convert("RGB")


def _random_box(size: tuple[int, int], rng: np.random.Generator) -> Box:
    width, height = size
    for _ in range(TRIES):
        area = width * height * rng.uniform(*AREAS)
        ratio = math.exp(rng.uniform(math.log(RATIOS[0]), math.log(RATIOS[1])))
        wide, high = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if wide <= width and high <= height:
            left, top = rng.uniform(0, width - wide), rng.uniform(0, height - high)
            return (left, top, left + wide, top + high)
    kept = min(width, height)
    left, top = (width - kept) / 2, (height - kept) / 2
    return (left, top, left + kept, top + kept)
