"""Calls that are due at a time of the run's clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Alarms:
    """A queue by time; of equal times the first set comes first."""

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def set(self, at_s: float, call: Callable[[], None]) -> None:
        """Call at `at_s`."""
        heapq.heappush(self._queue, (at_s, next(self._order), call))

    def ring(self, now: float) -> bool:
        """Make every call that is due; whether there was one."""
        rang = False
        while self._queue and self._queue[0][0] <= now:
            heapq.heappop(self._queue)[2]()
            rang = True
        return rang
