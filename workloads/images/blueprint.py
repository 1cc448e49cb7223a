"""Residual networks as plain data: what layers there are, and where their parameters lie.

Both frameworks build a network from the same blueprint and train the same vector. He et al. (2016):
section 4.2 (CIFAR style) and table 1 (bottlenecks, strides in the 3x3 convolution as usual today).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workloads.seeds import Purpose, generator

CIFAR_CHANNELS = (16, 32, 64)
BOTTLENECK_CHANNELS = (64, 128, 256, 512)
BOTTLENECK_UNITS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
EXPANSION = 4


@dataclass(frozen=True)
class Convolution:
    """`size` x `size` without bias, padded by size // 2, then batch normalization."""

    inputs: int
    outputs: int
    size: int
    stride: int


@dataclass(frozen=True)
class Unit:
    """Convolutions with ReLU between them, beside a shortcut that is projected where it must be."""

    convolutions: tuple[Convolution, ...]
    projection: Convolution | None


@dataclass(frozen=True)
class Blueprint:
    """A network: `stem`, a 3x3 maximum of stride 2 where `pooled`, units, mean, linear layer."""

    stem: Convolution
    pooled: bool
    units: tuple[Unit, ...]
    features: int
    classes: int

    def convolutions(self) -> Iterator[Convolution]:
        """All, in the order of their parameters."""
        yield self.stem
        for unit in self.units:
            yield from unit.convolutions
            if unit.projection is not None:
                yield unit.projection

    def shapes(self) -> Iterator[tuple[int, ...]]:
        """Shapes of the parameters, in the order in which they lie in the vector.

        Of each convolution its kernel (outputs, height, width, inputs), scale and shift (outputs);
        then the linear layer's weights (classes, features) and bias (classes).
        """
        for one in self.convolutions():
            yield (one.outputs, one.size, one.size, one.inputs)
            yield (one.outputs,)
            yield (one.outputs,)
        yield (self.classes, self.features)
        yield (self.classes,)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(map(math.prod, self.shapes()))

    def initial(self, seed: int) -> NDArray[np.float32]:
        """Return initial parameters, a function of the seed: float32[size].

        Kernels are normal with variance 2 / (outputs x area) (He et al. 2015), scales 1, shifts 0,
        the linear layer uniform within 1 / sqrt(features).
        """
        rng = generator(seed, Purpose.INITIAL_MODEL)
        parts: list[NDArray[np.float32]] = []
        for one in self.convolutions():
            area = one.size**2
            kernel = rng.standard_normal(one.outputs * area * one.inputs, np.float32)
            kernel *= np.float32(math.sqrt(2 / (one.outputs * area)))
            scale, shift = np.ones(one.outputs, np.float32), np.zeros(one.outputs, np.float32)
            parts += [kernel, scale, shift]
        reach = 1 / math.sqrt(self.features)
        linear = self.classes * (self.features + 1)
        parts.append(rng.uniform(-reach, reach, linear).astype(np.float32))
        return np.concatenate(parts)


def small(depth: int, channels: int, classes: int) -> Blueprint:
    """The CIFAR style for small images; `depth` is 6n + 2."""
    stem = Convolution(channels, CIFAR_CHANNELS[0], 3, 1)
    units, inputs = [], CIFAR_CHANNELS[0]
    for outputs in CIFAR_CHANNELS:
        for index in range((depth - 2) // 6):
            stride = 2 if index == 0 and outputs != CIFAR_CHANNELS[0] else 1
            pair = (Convolution(inputs, outputs, 3, stride), Convolution(outputs, outputs, 3, 1))
            units.append(Unit(pair, _projection(inputs, outputs, stride)))
            inputs = outputs
    return Blueprint(stem, False, tuple(units), inputs, classes)


def bottleneck(depth: int, channels: int, classes: int) -> Blueprint:
    """ResNet-50, -101 or -152."""
    stem = Convolution(channels, BOTTLENECK_CHANNELS[0], 7, 2)
    units, inputs = [], BOTTLENECK_CHANNELS[0]
    for inner, count in zip(BOTTLENECK_CHANNELS, BOTTLENECK_UNITS[depth], strict=True):
        for index in range(count):
            stride = 2 if index == 0 and inner != BOTTLENECK_CHANNELS[0] else 1
            outputs = EXPANSION * inner
            three = (
                Convolution(inputs, inner, 1, 1),
                Convolution(inner, inner, 3, stride),
                Convolution(inner, outputs, 1, 1),
            )
            units.append(Unit(three, _projection(inputs, outputs, stride)))
            inputs = outputs
    return Blueprint(stem, True, tuple(units), inputs, classes)


def _projection(inputs: int, outputs: int, stride: int) -> Convolution | None:
    changes = stride != 1 or inputs != outputs
    return Convolution(inputs, outputs, 1, stride) if changes else None
