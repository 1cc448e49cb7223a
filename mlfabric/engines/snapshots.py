"""When the model is scored: on a grid of times, the same for every policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray


class Snapshots:
    """Shows the model as it is at every multiple of `interval_s` at which it has changed.

    A grid, as a snapshot at the first commit after some time would round up policies that commit
    rarely. `take(model, version, elapsed_s)` must copy what it keeps.
    """

    def __init__(self, interval_s: float, take: Callable[[NDArray[Any], int, float], None]) -> None:
        self._interval_s = interval_s
        self._take = take
        self._model: NDArray[Any] | None = None
        self._version = 0
        self._taken: int | None = None
        self._looks = 0

    @property
    def due_s(self) -> float:
        """When to look next."""
        return self._looks * self._interval_s

    def offer(self, model: NDArray[Any], version: int, now: float, *, last: bool = False) -> None:
        """The model, changed in place from now on, has this version; the first is taken at once."""
        self._model, self._version = model, version
        if self._taken is None or last:
            self._look(now, always=last)

    def look(self, now: float) -> None:
        """Take one if it is due."""
        if now >= self.due_s:
            self._look(now, always=False)

    def _look(self, now: float, *, always: bool) -> None:
        self._looks = max(self._looks, math.floor(now / self._interval_s)) + 1
        if self._model is not None and (always or self._version != self._taken):
            self._taken = self._version
            self._take(self._model, self._version, now)
