"""Momentum of whoever applies sums, as SGD has it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlfabric.payload import Payload, dense


class Momentum:
    """v <- factor * v + u; what is to be applied in the place of u is v."""

    def __init__(self, factor: float = 0.0) -> None:
        self._factor = factor
        self._velocity: NDArray[Any] | None = None

    def memory(self, like: NDArray[Any]) -> list[NDArray[Any]]:
        """What it remembers, of the size of `like`: nothing where the factor is 0."""
        if self._factor == 0.0:
            return []
        return [np.zeros_like(like) if self._velocity is None else self._velocity]

    def remember(self, memory: NDArray[Any]) -> None:
        """Go on from what another one remembered."""
        self._velocity = memory.copy() if len(memory) else None

    def step(self, update: Payload) -> Payload:
        """The update to apply, of the same size: this one itself where the factor is 0."""
        if self._factor == 0.0:
            return update
        if self._velocity is None:
            self._velocity = np.zeros(update.size, update.values.dtype)
        self._velocity *= self._factor
        update.add_to(self._velocity)
        return dense(self._velocity)
