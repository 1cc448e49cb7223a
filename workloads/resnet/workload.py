"""The workloads resnet_*: dense gradients of a small residual network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from workloads.cache import publish
from workloads.resnet.images import DATASETS, Dataset

if TYPE_CHECKING:
    from workloads.resnet.evaluator import ResnetEvaluator
    from workloads.resnet.trainer import ResnetTrainer


@dataclass(frozen=True, kw_only=True)
class Resnet:
    """ResNet of `depth` 6n + 2, trained by SGD with worker-local momentum.

    The model is float32[parameters]. torch is imported only when a model is built, so a rank that
    trains nothing can hold this object.
    """

    metric_name: ClassVar[str] = "heldout_loss"
    metric_goal: ClassVar[Literal["min", "max"]] = "min"
    conserved: ClassVar[bool] = False

    name: str
    dataset: str
    depth: int
    batch_size: int
    learning_rate: float
    momentum: float
    weight_decay: float
    seed: int
    cache_dir: Path

    @property
    def images(self) -> Dataset:
        """What is known of the images."""
        return DATASETS[self.dataset]

    @property
    def data_dir(self) -> Path:
        """The folder of prepared arrays."""
        return self.cache_dir / self.dataset

    def prepare(self) -> None:
        """Convert and split the images where that has not been done.

        Raises WorkloadError when the package is missing or the cache folder cannot be written.
        """
        publish(self.data_dir, self.images.build)

    def initial_model(self) -> NDArray[np.float32]:
        """Return the initial parameters, a function of (depth, seed): float32."""
        from workloads.resnet.network import FlatNetwork

        return FlatNetwork(self.depth, self.seed).parameters.copy()

    def trainer(self, worker: int, workers: int) -> ResnetTrainer:
        """Return the trainer of worker `worker` in 0..workers-1."""
        from workloads.resnet.trainer import ResnetTrainer

        return ResnetTrainer(self, worker, workers)

    def evaluator(self) -> ResnetEvaluator:
        """Return the evaluator on the held-out images."""
        from workloads.resnet.evaluator import ResnetEvaluator

        return ResnetEvaluator(self)
