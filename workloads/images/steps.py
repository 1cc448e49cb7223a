"""A framework's step, imported when it is made."""

from __future__ import annotations

from workloads.base import WorkloadError
from workloads.images.blueprint import Blueprint
from workloads.images.sgd import Sgd
from workloads.images.trainer import Step


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
    try:
        if framework == "tensorflow":
            from workloads.images.keras_step import KerasStep

            return KerasStep(blueprint, sgd, shape)
        from workloads.images.torch_step import TorchStep, pick_device
    except ImportError as error:
        raise WorkloadError(
            f"workload.framework={framework}: cannot be imported: {error}"
        ) from error
    return TorchStep(blueprint, sgd, pick_device(device, worker), mixed_precision)
