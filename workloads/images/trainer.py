"""One worker: gradients of its own minibatches at its view, with momentum of its own."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.images.source import Batch, Images


class Step(Protocol):
    """A framework's half of training."""

    def __call__(self, view: NDArray[np.float32], batch: Batch) -> NDArray[np.float32]:
        """Return the update float32[size] of one minibatch at `view`: a fresh array."""

    def forget(self) -> None:
        """Start with no momentum."""

    def memory(self) -> NDArray[np.float32]:
        """Return a copy of the momentum buffer: float32[size]."""

    def remember(self, memory: NDArray[np.float32]) -> None:
        """Go on with the momentum of another step's `memory`."""


class ImageTrainer:
    """Computes -learning_rate x momentum buffer from one minibatch at the worker's view."""

    def __init__(
        self, step: Step, images: Images, batch_size: int, size: int, worker: int, workers: int
    ) -> None:
        self._step = step
        self._images = images
        self._batch_size = batch_size
        self._size = size
        self._place = worker, workers

    def warm_up(self) -> None:
        """Do one step on blank images at a model of zeros and forget it, momentum included."""
        self._images.start()
        count = self._batch_size
        blank = np.zeros((count, *self._images.shape), np.float32)
        self._step(np.zeros(self._size, np.float32), Batch(blank, np.zeros(count, np.int64)))
        self._step.forget()

    def load(self) -> None:
        """Open this worker's images."""
        self._start(0)

    def compute(self, view: NDArray[np.float32]) -> tuple[None, NDArray[np.float32]]:
        """Return (None, update float32[size]), a fresh array, from the next minibatch at `view`."""
        self._taken += 1
        return None, self._step(view, next(self._batches))

    def state(self) -> Any:
        """How many minibatches were taken, and the momentum."""
        return self._taken, self._step.memory()

    def restore(self, state: Any) -> None:
        """Go on with the next minibatch."""
        taken, memory = state
        self._start(taken)
        self._step.remember(memory)

    def _start(self, taken: int) -> None:
        """Minibatches, without those that were taken before."""
        self._taken = taken
        self._batches = self._images.training(*self._place, self._batch_size, taken)
