"""Random pixels of ImageNet's shape: for throughput, never for accuracy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from workloads.images.source import Batch
from workloads.seeds import SPLIT_SEED, Purpose, generator

CLASSES = 1000
BATCHES = 4
"""So many batches are drawn, and taken in turn."""

SCORING_BATCH_SIZE = 16


class SyntheticImages:
    """Noise with random labels (`workloads.images.source.Images`)."""

    classes = CLASSES

    def __init__(self, side: int, scored: int, seed: int) -> None:
        self._side = side
        self._scored = scored
        self._seed = seed

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image: (side, side, 3)."""
        return (self._side, self._side, 3)

    def start(self) -> None:
        """Nothing is read."""

    def training(
        self, worker: int, workers: int, batch_size: int, taken: int = 0
    ) -> Iterator[Batch]:
        """A few batches of the worker's own, again and again."""
        rng = generator(self._seed, Purpose.SYNTHETIC, worker)
        drawn = [self._drawn(rng, batch_size) for _ in range(BATCHES)]
        return itertools.islice(itertools.cycle(drawn), taken % BATCHES, None)

    def statistics(self) -> Iterator[Batch]:
        """One batch."""
        yield self._drawn(generator(SPLIT_SEED, Purpose.EVALUATION), SCORING_BATCH_SIZE)

    def heldout(self) -> Iterator[Batch]:
        """Others."""
        for first in range(0, self._scored, SCORING_BATCH_SIZE):
            rng = generator(SPLIT_SEED, Purpose.EVALUATION, 1 + first)
            yield self._drawn(rng, min(SCORING_BATCH_SIZE, self._scored - first))

    def _drawn(self, rng: np.random.Generator, size: int) -> Batch:
        images = rng.standard_normal((size, *self.shape), np.float32)
        return Batch(images, rng.integers(0, CLASSES, size))
