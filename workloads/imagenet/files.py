"""Images in files, divided among workers."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.base import WorkloadError
from workloads.cache import open_array
from workloads.imagenet.index import Index
from workloads.imagenet.loading import Order, Readers
from workloads.images.source import Batch
from workloads.seeds import SPLIT_SEED, Purpose, generator

MEAN = np.array((0.485, 0.456, 0.406), np.float32)
DEVIATION = np.array((0.229, 0.224, 0.225), np.float32)
"""ImageNet's usual ones, by channel."""

STATISTICS_BATCHES = 20
STATISTICS_BATCH_SIZE = 16
SCORING_BATCH_SIZE = 16


def normalize(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn uint8[..., 3] into float32 of about unit variance."""
    scale = np.float32(1 / 255) / DEVIATION
    return np.asarray(pixels * scale - MEAN / DEVIATION, np.float32)


class FileImages:
    """A prepared index of files (`workloads.images.source.Images`)."""

    def __init__(self, folder: Path, side: int, loaders: int, scored: int, seed: int) -> None:
        self._folder = folder
        self._side = side
        self._scored = scored
        self._seed = seed
        self._readers = Readers(loaders)
        self._unreadable: set[str] = set()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one crop: (side, side, 3)."""
        return (self._side, self._side, 3)

    @property
    def classes(self) -> int:
        """Number of class folders."""
        return len(open_array(self._folder, "classes"))

    def start(self) -> None:
        """Start the processes that read."""
        self._readers.start()

    def training(
        self, worker: int, workers: int, batch_size: int, taken: int = 0
    ) -> Iterator[Batch]:
        """Endless minibatches of random crops; each image of a pass is drawn once.

        Where some images cannot be read, batches after the first `taken` are others than they
        would have been: they were filled up.
        """
        index = self._open("train")
        mine = generator(self._seed, Purpose.SHARD).permutation(len(index.labels))[worker::workers]
        if not len(mine):
            raise WorkloadError(
                f"cluster.workers={workers}: must be at most {len(index.labels)}, the number of"
                " images to train on"
            )
        rng = generator(self._seed, Purpose.ORDER, worker)
        numbers = itertools.chain.from_iterable(rng.permutation(mine) for _ in itertools.count())
        return self._batches(index, numbers, batch_size, worker, taken)

    def statistics(self) -> Iterator[Batch]:
        """Batches of training images in the middle crop, always the same."""
        count = STATISTICS_BATCHES * STATISTICS_BATCH_SIZE
        batches = self._fixed("train", count, STATISTICS_BATCH_SIZE)
        return (batch for batch in batches if len(batch.labels) > 1)  # of one there are none

    def heldout(self) -> Iterator[Batch]:
        """The held-out images that are scored: the same ones whatever the seed of a run."""
        return self._fixed("heldout", self._scored, SCORING_BATCH_SIZE)

    def _open(self, part: str) -> Index:
        return Index(lambda name: open_array(self._folder, name), part)

    def _batches(
        self, index: Index, numbers: Iterator[int], size: int, worker: int, taken: int
    ) -> Iterator[Batch]:
        """Batches of exactly `size` images: one that cannot be read gives way to the next."""
        asked: list[list[int]] = []

        def orders() -> Iterator[Order]:
            for step in itertools.count():
                chosen = list(itertools.islice(numbers, size))
                if step < taken:
                    continue
                asked.append(chosen)
                seeds = [
                    (self._seed, int(Purpose.AUGMENTATION), worker, step, place)
                    for place in range(size)
                ]
                yield Order([index.place(number) for number in chosen], seeds, self._side)

        images = np.empty((0, *self.shape), np.uint8)
        labels = np.empty(0, np.int64)
        vain = 0
        for crops in self._readers.stream(orders()):
            chosen = np.array(asked.pop(0))
            sound = self._sound(len(chosen), crops.unreadable)
            images = np.concatenate((images, crops.pixels[sound]))
            labels = np.concatenate((labels, index.labels[chosen[sound]]))
            vain = 0 if sound.any() else vain + size
            if vain > len(index.labels):
                raise WorkloadError(f"none of {vain} images could be read: {crops.unreadable[0]}")
            if len(labels) >= size:
                yield Batch(normalize(images[:size]), labels[:size])
                images, labels = images[size:], labels[size:]

    def _fixed(self, part: str, count: int, size: int) -> Iterator[Batch]:
        index = self._open(part)
        rng = generator(SPLIT_SEED, Purpose.EVALUATION)
        chosen = np.sort(rng.permutation(len(index.labels))[:count])
        cuts = [chosen[start : start + size] for start in range(0, len(chosen), size)]
        orders = (Order([index.place(n) for n in cut], None, self._side) for cut in cuts)
        found = 0
        for cut, crops in zip(cuts, self._readers.stream(orders), strict=True):
            sound = self._sound(len(cut), crops.unreadable)
            if sound.any():
                found += 1
                yield Batch(normalize(crops.pixels[sound]), index.labels[cut[sound]])
        if not found:
            raise WorkloadError(f"none of {len(chosen)} {part} images could be read")

    def _sound(self, size: int, unreadable: dict[int, str]) -> NDArray[np.bool_]:
        sound = np.ones(size, np.bool_)
        for number, why in unreadable.items():
            sound[number] = False
            if why not in self._unreadable:
                self._unreadable.add(why)
                told = f"unreadable image {len(self._unreadable)}: {why}"
                print(told, file=sys.stderr, flush=True)
        return sound
