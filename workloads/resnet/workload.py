"""The workloads resnet_* on small images: dense gradients of a small residual network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray

from workloads.base import Count, Location, Positive
from workloads.cache import mark_of, publish
from workloads.images.blueprint import Blueprint, small
from workloads.images.frameworks import make_evaluator, make_step
from workloads.images.sgd import Sgd
from workloads.images.trainer import ImageTrainer
from workloads.resnet.arrays import ArrayImages
from workloads.resnet.images import CLASSES, DATASETS, FASHION_FILES, Dataset

if TYPE_CHECKING:
    from workloads.images.evaluator import ImageEvaluator


@dataclass(frozen=True, kw_only=True)
class Resnet:
    """ResNet of `depth` 6n + 2; a push is one step of SGD with worker-local momentum.

    The model is float32[parameters]. A framework is imported only when something is trained or
    scored, so a rank that does neither can hold this object.
    """

    metric_name: ClassVar[str] = "heldout_loss"
    metric_goal: ClassVar[Literal["min", "max"]] = "min"
    conserved: ClassVar[bool] = False

    name: str
    framework: Literal["torch", "tensorflow"] = "torch"
    dataset: Literal["mnist5k", "digits", "fashion"]
    data_dir: Annotated[str, Location()] | None = None
    depth: int
    batch_size: Count
    learning_rate: Positive
    momentum: Annotated[float, Ge(0), Lt(1)]
    weight_decay: Annotated[float, Ge(0)]
    seed: int
    cache_dir: Path

    @property
    def data(self) -> str:
        """What the images are."""
        told = {"mnist5k": "MNIST, 5,000 images", "digits": "UCI digits, 1,797 images"}
        return told.get(self.dataset) or f"Fashion-MNIST of {self.data_dir}"

    def problem(self) -> str | None:
        """A depth that no such network has, or files that are wanted and not there."""
        if self.depth < 8 or self.depth % 6 != 2:
            return (
                f"workload.depth={self.depth}: must be 6n + 2 with n at least 1: 8, 14, 20, 26, 32,"
                " …"
            )
        if not self.images.in_folder:
            if self.data_dir is None:
                return None
            return (
                f"workload.data_dir={self.data_dir}: must be null with workload={self.name}, whose"
                " data come from a package"
            )
        if self.data_dir is not None:
            missing = [f for f in FASHION_FILES.values() if not (Path(self.data_dir) / f).is_file()]
            if not missing:
                return None
        return (
            f"workload.data_dir={self.data_dir}: must be a folder with"
            f" {', '.join(FASHION_FILES.values())} (docs/data.md tells where they come from)"
        )

    @property
    def images(self) -> Dataset:
        """What is known of the images."""
        return DATASETS[self.dataset]

    @property
    def prepared_dir(self) -> Path:
        """The folder of prepared arrays."""
        if self.data_dir is None:
            return self.cache_dir / self.dataset
        files = (Path(self.data_dir) / name for name in FASHION_FILES.values())
        return self.cache_dir / f"{self.dataset}-{mark_of(files)}"

    def prepare(self) -> None:
        """Convert and split the images where that has not been done.

        Raises WorkloadError when they are missing or the cache folder cannot be written.
        """
        source = Path(self.data_dir or ".")
        publish(self.prepared_dir, lambda: self.images.build(source))

    def initial_model(self) -> NDArray[np.float32]:
        """Return the initial parameters, a function of (depth, seed): float32."""
        return self._blueprint.initial(self.seed)

    def trainer(self, worker: int, workers: int) -> ImageTrainer:
        """Return the trainer of worker `worker` in 0..workers-1."""
        images, blueprint = self._source, self._blueprint
        sgd = Sgd(self.learning_rate, self.momentum, self.weight_decay)
        step = make_step(self.framework, blueprint, sgd, images.shape)
        return ImageTrainer(step, images, self.batch_size, blueprint.size, worker, workers)

    def evaluator(self) -> ImageEvaluator:
        """Return the evaluator on the held-out images."""
        return make_evaluator(self._blueprint, self._source, "cpu")

    @property
    def _blueprint(self) -> Blueprint:
        return small(self.depth, channels=1, classes=CLASSES)

    @property
    def _source(self) -> ArrayImages:
        return ArrayImages(self.images, self.prepared_dir, self.seed)
