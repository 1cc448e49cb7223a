"""The workload resnet_imagenet: a bottleneck ResNet on images in files, or on noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge, Le, Lt
from numpy.typing import NDArray

from workloads.base import Count, Location, Positive
from workloads.cache import mark_of, publish
from workloads.imagenet import index
from workloads.imagenet.files import FileImages
from workloads.imagenet.synthetic import SyntheticImages
from workloads.images.blueprint import Blueprint, bottleneck
from workloads.images.frameworks import make_evaluator, make_step
from workloads.images.sgd import Sgd
from workloads.images.source import Images
from workloads.images.trainer import ImageTrainer
from workloads.progress import Ticker

if TYPE_CHECKING:
    from workloads.images.evaluator import ImageEvaluator

_SMALLEST_SIDE = 32
"""Of such images the last layers see one value for each channel, of which there is no variance."""


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
    side: Annotated[int, Ge(_SMALLEST_SIDE), Le(512)]
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
        if self.batch_size == 1 and self.side <= _SMALLEST_SIDE:
            return "workload.batch_size=1: must be at least 2 with workload.side=32"
        if self.dataset == "synthetic":
            for key, asked, plain in (
                ("data_dir", self.data_dir, None),
                ("loaders", self.loaders, 0),
            ):
                if asked != plain:
                    allowed = "null" if plain is None else plain
                    return (
                        f"workload.{key}={asked}: must be {allowed} with workload={self.name},"
                        " whose images are noise"
                    )
            return None
        if self.data_dir is None:
            return (
                "workload.data_dir=null: must be a folder with train/ and val/ (docs/data.md tells"
                " where ImageNet comes from)"
            )
        try:
            lacks = index.missing(Path(self.data_dir))
        except OSError as error:
            lacks = f"{error.filename}: {error.strerror}"
        if lacks:
            return (
                f"workload.data_dir={self.data_dir}: must be a folder with train/ and val/; {lacks}"
            )
        return None

    @property
    def prepared_dir(self) -> Path:
        """The folder of the prepared index."""
        assert self.data_dir is not None
        return self.cache_dir / f"imagenet-{mark_of(index.parts_of(Path(self.data_dir)))}"

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
        return make_evaluator(self._blueprint, self._source, self.device)

    @property
    def _blueprint(self) -> Blueprint:
        return bottleneck(self.depth, channels=3, classes=self._source.classes)

    @property
    def _source(self) -> Images:
        if self.dataset == "synthetic":
            return SyntheticImages(self.side, self.scored, self.seed)
        return FileImages(self.prepared_dir, self.side, self.loaders, self.scored, self.seed)
