"""Prepared images as trainers and evaluators want them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import open_array
from workloads.images.source import Batch
from workloads.resnet.images import CLASSES, Dataset, shard
from workloads.seeds import Purpose, generator

STATISTICS_BATCHES = 20
STATISTICS_BATCH_SIZE = 32
SCORING_PIXELS = 25 * 28 * 28
"""Of one batch: as large as its intermediate results stay in the cache."""


class ArrayImages:
    """A data set in memory-mapped arrays (`workloads.images.source.Images`)."""

    classes = CLASSES

    def __init__(self, dataset: Dataset, folder: Path, seed: int) -> None:
        self._dataset = dataset
        self._folder = folder
        self._seed = seed

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image: (side, side, 1)."""
        return (self._dataset.side, self._dataset.side, 1)

    def start(self) -> None:
        """Nothing reads ahead."""

    def training(
        self, worker: int, workers: int, batch_size: int, taken: int = 0
    ) -> Iterator[Batch]:
        """Endless minibatches of a worker's part; each pass over it has an order of its own."""
        part = shard(self._folder, self._seed, worker, workers)
        images, labels = part["images"], part["labels"]
        if not len(labels):
            raise WorkloadError(f"cluster.workers={workers}: must be at most the number of images")
        rng = generator(self._seed, Purpose.ORDER, worker)

        def batches() -> Iterator[Batch]:
            queue = np.empty(0, np.int64)
            for number in itertools.count():
                while queue.size < batch_size:
                    queue = np.concatenate((queue, rng.permutation(labels.size)))
                chosen, queue = queue[:batch_size], queue[batch_size:]
                if number >= taken:
                    yield Batch(self._dataset.normalize(images[chosen]), labels[chosen])

        return batches()

    def statistics(self) -> Iterator[Batch]:
        """Batches of training images, always the same."""
        images, labels = self._open("train")
        rng = generator(self._seed, Purpose.EVALUATION)
        chosen = rng.permutation(len(images))[: STATISTICS_BATCHES * STATISTICS_BATCH_SIZE]
        yield from self._cut(images[chosen], labels[chosen], STATISTICS_BATCH_SIZE)

    def heldout(self) -> Iterator[Batch]:
        """All held-out images."""
        yield from self._cut(*self._open("heldout"), SCORING_PIXELS // self._dataset.side**2)

    def _open(self, part: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        names = (f"{part}_images", f"{part}_labels")
        images, labels = (open_array(self._folder, name) for name in names)
        return images, labels

    def _cut(
        self, images: NDArray[np.uint8], labels: NDArray[np.int64], size: int
    ) -> Iterator[Batch]:
        for start in range(0, len(images), size):
            part = slice(start, start + size)
            yield Batch(self._dataset.normalize(np.asarray(images[part])), np.array(labels[part]))
