"""The server's model: additive updates, versions, and what has changed since a version."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlfabric.errors import ProtocolError
from mlfabric.momentum import Momentum
from mlfabric.payload import Payload, dense, gather, touched_by


class ModelStore:
    """w <- w + update; every update in a payload advances the version by one.

    `model` has shape (size,), float32 or int32, and is changed in place. With `momentum`, what is
    applied is that of `Momentum`.
    """

    def __init__(self, model: NDArray[Any], momentum: float = 0.0) -> None:
        self.model = model
        self._momentum = Momentum(momentum)
        self.version = 0
        self._touched: deque[tuple[int, NDArray[np.int32]]] = deque()
        self._known_since = 0

    def apply(self, payload: Payload, updates: int) -> None:
        """Add the sum of `updates` updates. Raises ProtocolError when the sizes differ."""
        if payload.size != len(self.model):
            raise ProtocolError(f"update of size {payload.size} for a model of {len(self.model)}")
        payload = self._momentum.step(payload)
        payload.add_to(self.model)
        self.version += updates
        if payload.indices is None:
            self._touched.clear()
            self._known_since = self.version
        else:
            self._touched.append((self.version, payload.indices))

    def skip(self, updates: int) -> None:
        """Count updates that are lost: what has changed since an earlier version is not known."""
        self.version += updates
        self._known_since = self.version
        self._touched.clear()

    def state(self) -> Payload:
        """A copy of all that it holds: the model, and what its momentum remembers."""
        return dense(np.concatenate([self.model, *self._momentum.memory(self.model)]))

    def restore(self, state: Payload, version: int) -> None:
        """Hold what another store's `state` was at this version; the same model's memory."""
        self.model[:] = state.values[: len(self.model)]
        self._momentum.remember(state.values[len(self.model) :])
        self.version = self._known_since = version
        self._touched.clear()

    def freeze(self, since: int) -> Payload:
        """A copy from which any holder of version `since` or later gets the current model.

        Sparse, with the current values of all entries touched since then, where that is known
        and smaller; else dense.
        """
        if since < self._known_since:
            return dense(self.model.copy())
        touched = (indices for version, indices in self._touched if version > since)
        return gather(self.model, touched_by(len(self.model), touched))

    def forget_before(self, version: int) -> None:
        """Nobody will ask what changed before `version` any more."""
        while self._touched and self._touched[0][0] <= version:
            self._touched.popleft()
        self._known_since = max(self._known_since, version)
