"""The workload resnet_imagenet: a bottleneck ResNet on images in files, or on noise."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le, Lt
from numpy.typing import NDArray

from workloads.base import Count, Location, Positive
from workloads.cache import publish
from workloads.imagenet import index
from workloads.imagenet.files import FileImages
from workloads.imagenet.synthetic import SyntheticImages
from workloads.images.blueprint import Blueprint, bottleneck
from workloads.images.sgd import Sgd
from workloads.images.source import Images
from workloads.images.steps import make_step
from workloads.images.trainer import ImageTrainer
from workloads.progress import Ticker

if TYPE_CHECKING:
    from workloads.images.evaluator import ImageEvaluator


@dataclass(frozen=True, kw_only=True)
class Imagenet:
    """ResNet of `depth` on crops of `side` pixels; a push is one step of SGD.

    `loaders` processes a worker read images ahead; `scored` held-out images are scored. `device`
    and `mixed_precision` (bfloat16) are PyTorch's. The model is float32[parameters].
    """

    metric_name: ClassVar[str] = "heldout_loss"
    metric_goal: ClassVar[Literal["min", "max"]] = "min"
    conserved: ClassVar[bool] = False

    name: str
    framework: Literal["torch", "tensorflow"]
    dataset: Literal["folder", "synthetic"]
    data_dir: Annotated[str, Location()] | None
    depth: Literal[50, 101, 152]
    side: Annotated[int, Ge(32), Le(512)]
    batch_size: Count
    learning_rate: Positive
    momentum: Annotated[float, Ge(0), Lt(1)]
    weight_decay: Annotated[float, Ge(0)]
    loaders: Annotated[int, Ge(0), Le(64)]
    scored: Count
    device: Literal["auto", "cpu", "cuda"]
    mixed_precision: bool
    seed: int
    cache_dir: Path

    @property
    def data(self) -> str:
        """What the images are."""
        return "synthetic: noise" if self.dataset == "synthetic" else f"images of {self.data_dir}"

    def problem(self) -> str | None:
        """Images that are wanted and not there, or what TensorFlow does not take here."""
        if self.framework == "tensorflow":
            if self.device == "cuda":
                return (
                    "workload.device=cuda: must be auto or cpu with workload.framework=tensorflow"
                )
            if self.mixed_precision:
                return (
                    "workload.mixed_precision=true: must be false with"
                    " workload.framework=tensorflow"
                )
        if self.dataset == "synthetic":
            if self.data_dir is None:
                return None
            return (
                f"workload.data_dir={self.data_dir}: must be null with workload={self.name}, whose"
                " images are noise"
            )
        if self.data_dir is None:
            return (
                "workload.data_dir=null: must be a folder with train/ and val/ (docs/data.md tells"
                " where ImageNet comes from)"
            )
        if lacks := index.missing(Path(self.data_dir)):
            return (
                f"workload.data_dir={self.data_dir}: must be a folder with train/ and val/; {lacks}"
            )
        return None

    @property
    def prepared_dir(self) -> Path:
        """The folder of the prepared index."""
        assert self.data_dir is not None
        mark = hashlib.sha256(index.mark(Path(self.data_dir)).encode()).hexdigest()[:16]
        return self.cache_dir / f"imagenet-{mark}"

    def prepare(self) -> None:
        """Make the index of all images where that has not been done.

        Raises WorkloadError when there are none or the cache folder cannot be written.
        """
        if self.data_dir is not None:
            folder = Path(self.data_dir)
            publish(self.prepared_dir, lambda: index.build(folder, Ticker()))

    def initial_model(self) -> NDArray[np.float32]:
        """Return the initial parameters, a function of (depth, classes, seed): float32."""
        return self._blueprint.initial(self.seed)

    def trainer(self, worker: int, workers: int) -> ImageTrainer:
        """Return the trainer of worker `worker` in 0..workers-1."""
        images, blueprint = self._source, self._blueprint
        sgd = Sgd(self.learning_rate, self.momentum, self.weight_decay)
        step = make_step(
            self.framework,
            blueprint,
            sgd,
            images.shape,
            worker,
            self.device,
            self.mixed_precision,
        )
        return ImageTrainer(step, images, self.batch_size, blueprint.size, worker, workers)

    def evaluator(self) -> ImageEvaluator:
        """Return the evaluator on held-out images."""
        from workloads.images.evaluator import ImageEvaluator
        from workloads.images.torch_step import pick_device

        return ImageEvaluator(self._blueprint, self._source, pick_device(self.device, 0))

    @property
    def _blueprint(self) -> Blueprint:
        return bottleneck(self.depth, channels=3, classes=self._source.classes)

    @property
    def _source(self) -> Images:
        if self.dataset == "synthetic":
            return SyntheticImages(self.side, self.seed)
        return FileImages(self.prepared_dir, self.side, self.loaders, self.scored, self.seed)
