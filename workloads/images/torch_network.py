"""A blueprint in PyTorch, over one vector of parameters and one of gradients."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from workloads.images.blueprint import Blueprint, Convolution, Unit


def use_one_thread() -> None:
    """Keep torch to one thread: the cluster's hosts share this machine's cores."""
    torch.set_num_threads(1)
    if torch.get_num_interop_threads() != 1:
        torch.set_num_interop_threads(1)  # torch allows this once, before any parallel work


class _Residual(nn.Module):
    """A unit of the blueprint."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(map(_normalized, unit.convolutions))
        projected = unit.projection is not None
        self.shortcut = _normalized(unit.projection) if projected else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        inner = images
        for index, convolution in enumerate(self.convolutions):
            inner = convolution(functional.relu(inner, inplace=True) if index else inner)
        return functional.relu(inner + self.shortcut(images), inplace=True)


def _normalized(one: Convolution | None) -> nn.Sequential:
    assert one is not None
    padding = one.size // 2
    convolution = nn.Conv2d(one.inputs, one.outputs, one.size, one.stride, padding, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(one.outputs))


def _module(blueprint: Blueprint) -> nn.Sequential:
    pool = [nn.MaxPool2d(3, stride=2, padding=1)] if blueprint.pooled else []
    return nn.Sequential(
        _normalized(blueprint.stem),
        nn.ReLU(inplace=True),
        *pool,
        *map(_Residual, blueprint.units),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(blueprint.features, blueprint.classes),
    )


class FlatNetwork:
    """A network whose parameters are slices of one tensor, and its gradients of another.

    `parameters` and `gradients` are float32[size] on the network's device; on a processor, NumPy
    arrays of them share the network's memory. Running statistics of batch normalization are no
    parameters.
    """

    def __init__(self, blueprint: Blueprint, device: torch.device) -> None:
        with torch.device("meta"):  # no memory, and no random numbers, for values that are replaced
            module = _module(blueprint)
        self.module = module.to_empty(device=device)
        for norm in self.norms():
            norm.reset_running_stats()
        self.device = device
        self.parameters = torch.zeros(blueprint.size, device=device)
        self.gradients = torch.zeros(blueprint.size, device=device)
        start = 0
        for parameter, shape in zip(self.module.parameters(), blueprint.shapes(), strict=True):
            part = slice(start, start + parameter.numel())
            parameter.data = _shaped(self.parameters[part], shape)
            parameter.grad = _shaped(self.gradients[part], shape)
            start = part.stop

    def norms(self) -> list[nn.BatchNorm2d]:
        """Every batch normalization."""
        return [m for m in self.module.modules() if isinstance(m, nn.BatchNorm2d)]

    def scores(self, images: NDArray[np.float32]) -> Tensor:
        """Scores of the classes, float32[n, classes]; `images` as in `Batch`."""
        found: Tensor = self.module(self._moved(images).permute(0, 3, 1, 2))
        return found

    def _moved(self, array: NDArray[np.float32]) -> Tensor:
        tensor = torch.from_numpy(array)
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor


def _shaped(part: Tensor, shape: tuple[int, ...]) -> Tensor:
    """View a slice as a parameter; kernels with channels last: a step is a third faster."""
    seen = part.view(shape)
    return seen.permute(0, 3, 1, 2) if len(shape) == 4 else seen
