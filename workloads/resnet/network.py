"""The residual network of He et al. (2016), section 4.2, for small gray images, over one vector."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.base import WorkloadError
from workloads.resnet.images import CLASSES
from workloads.seeds import Purpose, key64

STAGE_CHANNELS = (16, 32, 64)
ONEDNN_SIDE = 16
"""Smallest images that are trained with oneDNN [ours]: measured at 8 and 28."""


def use_one_thread() -> None:
    """Keep torch to one thread: the cluster's hosts share this machine's cores."""
    torch.set_num_threads(1)
    if torch.get_num_interop_threads() != 1:
        torch.set_num_interop_threads(1)  # torch allows this once, before any parallel work


@contextmanager
def convolutions_for(side: int) -> Iterator[None]:
    """Train images of this side with the faster convolutions.

    oneDNN's prepare so much for each call that on small images plain ones take 3 ms a step, not 5.
    """
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = before and side >= ONEDNN_SIDE  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


class Unit(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride)
        self.second = _convolution(outputs, outputs, 3, 1)
        changes = stride != 1 or inputs != outputs
        self.shortcut = _convolution(inputs, outputs, 1, stride) if changes else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        inner = self.second(functional.relu(self.first(images), inplace=True))
        return functional.relu(inner + self.shortcut(images), inplace=True)


def _convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


def _build(depth: int) -> nn.Sequential:
    units, remainder = divmod(depth - 2, 6)
    if units < 1 or remainder:
        raise WorkloadError(f"depth is {depth}; allowed are 8, 14, 20, 26, 32 ... (6 n + 2)")
    layers: list[nn.Module] = [_convolution(1, STAGE_CHANNELS[0], 3, 1), nn.ReLU(inplace=True)]
    inputs = STAGE_CHANNELS[0]
    for outputs in STAGE_CHANNELS:
        for index in range(units):
            stride = 2 if index == 0 and outputs != STAGE_CHANNELS[0] else 1
            layers.append(Unit(inputs, outputs, stride))
            inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES)]
    return nn.Sequential(*layers)


class FlatNetwork:
    """A network whose parameters are slices of one vector, and its gradients of another.

    `parameters` and `gradients` are NumPy float32[size] arrays that share the network's memory.
    Batch-norm running statistics are no parameters. Raises WorkloadError when depth is not 6n + 2.
    """

    def __init__(self, depth: int, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(key64(seed, Purpose.INITIAL_MODEL) >> 1))
            self.module = _build(depth)
        owned = list(self.module.parameters())
        parameters = torch.cat([parameter.detach().flatten() for parameter in owned])
        gradients = torch.zeros_like(parameters)
        start = 0
        for parameter in owned:
            end = start + parameter.numel()
            shape = parameter.shape
            parameter.data = _shaped(parameters[start:end], shape)
            parameter.grad = _shaped(gradients[start:end], shape)
            start = end
        self.parameters = parameters.numpy()
        self.gradients = gradients.numpy()


def _shaped(part: Tensor, shape: torch.Size) -> Tensor:
    """View a slice as a parameter; kernels with channels last: a step is a third faster."""
    if len(shape) != 4:
        return part.view(shape)
    outputs, inputs, height, width = shape
    return part.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
