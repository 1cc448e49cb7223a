"""What trains and scores in a framework, imported when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workloads.base import WorkloadError
from workloads.images.blueprint import Blueprint
from workloads.images.sgd import Sgd
from workloads.images.source import Images
from workloads.images.trainer import Step

if TYPE_CHECKING:
    from workloads.images.evaluator import ImageEvaluator


def make_step(
    framework: str,
    blueprint: Blueprint,
    sgd: Sgd,
    shape: tuple[int, int, int],
    worker: int = 0,
    device: str = "cpu",
    mixed_precision: bool = False,
) -> Step:
    """The step of "torch" or "tensorflow"; raises WorkloadError where that is not installed.

    `device` is "cpu", "cuda", or "auto"; TensorFlow's is always the processor.
    """
    with _imported(framework):
        if framework == "tensorflow":
            from workloads.images.keras_step import KerasStep

            return KerasStep(blueprint, sgd, shape)
        from workloads.images.torch_step import TorchStep, pick_device
    return TorchStep(blueprint, sgd, pick_device(device, worker), mixed_precision)


def make_evaluator(blueprint: Blueprint, images: Images, device: str) -> ImageEvaluator:
    """What scores models, whichever framework trains them: PyTorch."""
    with _imported("torch"):
        from workloads.images.evaluator import ImageEvaluator
        from workloads.images.torch_step import pick_device
    return ImageEvaluator(blueprint, images, pick_device(device, 0))


@contextmanager
def _imported(framework: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise WorkloadError(f"{framework} is needed, and cannot be imported: {error}") from error
