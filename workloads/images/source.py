"""What a source of images is to trainers and evaluators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Batch(NamedTuple):
    """`images` float32[n, side, side, channels], normalized; `labels` int64[n]."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


class Images(Protocol):
    """A data set, divided among workers."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image: (side, side, channels)."""

    @property
    def classes(self) -> int:
        """Number of classes."""

    def start(self) -> None:
        """Start what reads ahead, off the clock; touches no image."""

    def training(
        self, worker: int, workers: int, batch_size: int, taken: int = 0
    ) -> Iterator[Batch]:
        """Endless minibatches of a worker's part; each pass over it has an order of its own.

        The first `taken` are left out, and not read.
        """

    def statistics(self) -> Iterator[Batch]:
        """Batches of training images, always the same, for statistics of batch normalization."""

    def heldout(self) -> Iterator[Batch]:
        """All held-out images."""
