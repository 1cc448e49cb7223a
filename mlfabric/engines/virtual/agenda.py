"""The virtual clock: what is to happen, in the order of time, then of asking."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Agenda:
    """Calls by time; of equal times the first asked for comes first, so that ties never vary.

    `now` is the virtual time in seconds; it only moves forward. `pending` is how many calls are to
    come, those that only look on (`watch`) left out.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.pending = 0
        self._queue: list[tuple[float, int, bool, Callable[..., None], tuple[Any, ...]]] = []
        self._asked = 0

    def at(self, at_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call at a time, or now where that has passed."""
        self.pending += 1
        self._put(at_s, True, call, arguments)

    def after(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call when `delay_s` seconds, not negative, have passed."""
        self.pending += 1
        self._asked += 1  # `_put` without the call: this is most of what is ever asked for
        heappush(self._queue, (self.now + delay_s, self._asked, True, call, arguments))

    def watch(self, at_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call at a time at which nothing goes on because of it."""
        self._put(at_s, False, call, arguments)

    def next_s(self) -> float:
        """When the next call is due; inf if there is none."""
        return self._queue[0][0] if self._queue else math.inf

    def step(self) -> None:
        """Go to the next call's time and make it."""
        self.now, _, counts, call, arguments = heappop(self._queue)
        self.pending -= counts
        call(*arguments)

    def _put(
        self, at_s: float, counts: bool, call: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        self._asked += 1
        heappush(self._queue, (max(at_s, self.now), self._asked, counts, call, arguments))
