"""One worker of the residual network: SGD with momentum of its own, on its own images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from workloads.resnet.images import shard
from workloads.resnet.network import FlatNetwork, convolutions_for, use_one_thread
from workloads.seeds import Purpose, generator

if TYPE_CHECKING:
    from workloads.resnet.workload import Resnet


class ResnetTrainer:
    """Computes -learning_rate x momentum buffer from one minibatch at the worker's view."""

    def __init__(self, workload: Resnet, worker: int, workers: int) -> None:
        use_one_thread()
        self._workload = workload
        self._worker = worker
        self._workers = workers
        self._network = FlatNetwork(workload.depth, workload.seed)
        self._momentum = np.zeros_like(self._network.parameters)

    def warm_up(self) -> None:
        """Do one step on blank images and forget it, momentum included."""
        batch, side = self._workload.batch_size, self._workload.images.side
        blank = np.zeros((batch, 1, side, side), np.float32)
        self._step(self._network.parameters.copy(), blank, np.zeros(batch, np.int64))
        self._momentum[:] = 0

    def load(self) -> None:
        """Read this worker's images."""
        settings = self._workload
        part = shard(settings.data_dir, settings.seed, self._worker, self._workers)
        self._images, self._labels = part["images"], part["labels"]
        self._batches = self._shuffled_batches()

    def compute(self, view: NDArray[np.float32]) -> tuple[None, NDArray[np.float32]]:
        """Return (None, update float32[size]), a fresh array, from the next minibatch at `view`."""
        batch = next(self._batches)
        images = self._workload.images.normalize(self._images[batch])
        return None, self._step(view, images, self._labels[batch])

    def _step(
        self, view: NDArray[np.float32], images: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        settings, network = self._workload, self._network
        np.copyto(network.parameters, view)
        network.gradients[:] = 0
        with convolutions_for(settings.images.side):
            scores = network.module(torch.from_numpy(images))
            functional.cross_entropy(scores, torch.from_numpy(labels)).backward()  # type: ignore[no-untyped-call]
        self._momentum *= np.float32(settings.momentum)
        self._momentum += network.gradients
        self._momentum += np.float32(settings.weight_decay) * network.parameters
        update: NDArray[np.float32] = self._momentum * np.float32(-settings.learning_rate)
        return update

    def _shuffled_batches(self) -> Iterator[NDArray[np.int64]]:
        """Endless minibatches; each pass over the images has an order of its own."""
        size = self._workload.batch_size
        rng = generator(self._workload.seed, Purpose.ORDER, self._worker)
        queue = np.empty(0, np.int64)
        while True:
            while queue.size < size:
                queue = np.concatenate((queue, rng.permutation(self._labels.size)))
            yield queue[:size]
            queue = queue[size:]
