"""Loss and accuracy on held-out images, batch-norm statistics estimated anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from workloads.cache import open_array
from workloads.resnet.network import FlatNetwork, use_one_thread
from workloads.seeds import Purpose, generator

if TYPE_CHECKING:
    from workloads.resnet.workload import Resnet

STATISTICS_BATCHES = 20
STATISTICS_BATCH_SIZE = 32
SCORING_PIXELS = 25 * 28 * 28
"""Of one batch: as large as its intermediate results stay in the cache."""


class ResnetEvaluator:
    """Scores a parameter vector on the held-out images.

    Running statistics are no part of an update, so they are estimated from 20 training batches for
    every model that is scored: always the same images.
    """

    def __init__(self, workload: Resnet) -> None:
        use_one_thread()
        self._network = FlatNetwork(workload.depth, workload.seed)
        self._norms = [m for m in self._network.module.modules() if isinstance(m, nn.BatchNorm2d)]
        for norm in self._norms:
            norm.momentum = None  # cumulative mean over the batches instead of a decaying one
        train = open_array(workload.data_dir, "train_images")
        rng = generator(workload.seed, Purpose.EVALUATION)
        sample = rng.permutation(len(train))[: STATISTICS_BATCHES * STATISTICS_BATCH_SIZE]
        normalize = workload.images.normalize
        self._statistics = _batches(normalize(train[sample]), STATISTICS_BATCH_SIZE)
        heldout = open_array(workload.data_dir, "heldout_images")
        self._heldout = _batches(
            normalize(np.asarray(heldout)), SCORING_PIXELS // workload.images.side**2
        )
        self._labels = torch.from_numpy(np.array(open_array(workload.data_dir, "heldout_labels")))

    def evaluate(self, model: NDArray[np.float32]) -> dict[str, float]:
        """Return {"heldout_loss": mean cross entropy in nats, "heldout_accuracy": 0..1}."""
        np.copyto(self._network.parameters, model)
        module = self._network.module
        with torch.inference_mode():
            for norm in self._norms:
                norm.reset_running_stats()
            module.train()
            for images in self._statistics:
                module(images)
            module.eval()
            scores = torch.cat([module(images) for images in self._heldout])
            loss = functional.cross_entropy(scores, self._labels)
            right = scores.argmax(dim=1) == self._labels
        return {"heldout_loss": float(loss), "heldout_accuracy": float(right.float().mean())}


def _batches(images: NDArray[np.float32], size: int) -> tuple[Tensor, ...]:
    return torch.split(torch.from_numpy(images), size)
