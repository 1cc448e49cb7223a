"""Training in PyTorch: on a processor or a GPU, in full or mixed precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from workloads.base import WorkloadError
from workloads.images.blueprint import Blueprint
from workloads.images.sgd import Momentum, Sgd
from workloads.images.source import Batch
from workloads.images.torch_network import FlatNetwork, use_one_thread

ONEDNN_SIDE = 16
"""Smallest images that are trained with oneDNN [ours]: measured at 8 and 28."""


class TorchStep:
    """Gradient steps on one network; on a GPU, buffers that cross the bus are pinned."""

    def __init__(
        self, blueprint: Blueprint, sgd: Sgd, device: torch.device, mixed_precision: bool
    ) -> None:
        use_one_thread()
        self._network = FlatNetwork(blueprint, device)
        self._momentum = Momentum(sgd, self._network.gradients)
        self._mixed = mixed_precision
        pinned = device.type == "cuda"
        self._crossing = torch.empty(blueprint.size, pin_memory=True) if pinned else None

    def __call__(self, view: NDArray[np.float32], batch: Batch) -> NDArray[np.float32]:
        """Return the update float32[size] of one minibatch at `view`: a fresh array."""
        network = self._network
        self._take_in(view)
        network.gradients.zero_()
        labels = torch.from_numpy(batch.labels).to(network.device)
        kind = network.device.type
        with _convolutions_for(batch.images.shape[1]):
            with torch.autocast(kind, torch.bfloat16, enabled=self._mixed):
                loss = functional.cross_entropy(network.scores(batch.images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
        update = self._momentum.update(network.gradients, network.parameters)
        if self._crossing is None:
            return np.asarray(update.numpy())
        self._crossing.copy_(update)
        return self._crossing.numpy().copy()

    def forget(self) -> None:
        """Start with no momentum."""
        self._momentum.forget()

    def memory(self) -> NDArray[np.float32]:
        """Return a copy of the momentum buffer: float32[size]."""
        return np.array(self._momentum.buffer.cpu().numpy())

    def remember(self, memory: NDArray[np.float32]) -> None:
        """Go on with another step's momentum."""
        self._momentum.buffer.copy_(torch.from_numpy(memory))

    def _take_in(self, view: NDArray[np.float32]) -> None:
        if self._crossing is None:
            np.copyto(self._network.parameters.numpy(), view)
            return
        np.copyto(self._crossing.numpy(), view)
        self._network.parameters.copy_(self._crossing, non_blocking=True)


@contextmanager
def _convolutions_for(side: int) -> Iterator[None]:
    """Train images of this side with the faster convolutions.

    oneDNN's prepare so much for each call that on small images plain ones take 3 ms a step, not 5.
    """
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = before and side >= ONEDNN_SIDE  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def pick_device(asked: str, worker: int) -> torch.device:
    """The device of a worker: `auto` is a GPU where there is one; workers share them in turn.

    Raises WorkloadError where "cuda" is asked for and there is no GPU.
    """
    gpus = torch.cuda.device_count()
    if asked == "cpu" or (asked == "auto" and not gpus):
        return torch.device("cpu")
    if not gpus:
        raise WorkloadError("workload.device=cuda: must be auto or cpu where PyTorch sees no GPU")
    return torch.device("cuda", worker % gpus)
