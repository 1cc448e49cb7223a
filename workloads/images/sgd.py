"""Stochastic gradient descent with momentum of the worker's own, in any framework's arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sgd:
    """Settings of the step: update = -learning_rate x buffer."""

    learning_rate: float
    momentum: float
    weight_decay: float


class Momentum:
    """buffer <- momentum x buffer + gradient + weight_decay x parameters.

    Works on NumPy arrays and on torch tensors, wherever these lie.
    """

    def __init__(self, sgd: Sgd, like: Any) -> None:
        self._sgd = sgd
        self.buffer = 0 * like

    def update(self, gradient: Any, parameters: Any) -> Any:
        """Take in a gradient; returns the update, a fresh array."""
        self.buffer *= self._sgd.momentum
        self.buffer += gradient
        if self._sgd.weight_decay:
            self.buffer += self._sgd.weight_decay * parameters
        return self.buffer * -self._sgd.learning_rate

    def forget(self) -> None:
        """Start anew."""
        self.buffer[:] = 0
