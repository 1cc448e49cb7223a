"""Transfers that wait for room on their links, tried again only when a link of theirs gains some.

The result is that of trying all of them, in order of priority, after every event: starting one
leaves less room to others, so only those whose links have gained room since may start [ours].
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Iterator

from mlfabric.counting import Count
from mlfabric.planning.loads import Key, LinkLoads, Transfer

_Entry = tuple[Key, Transfer]


class StartQueue:
    """Every transfer waits under all links of its path, in order of priority.

    `_lowest` is at most what any transfer under a link wants: with less free, none needs a look.
    """

    def __init__(self, loads: LinkLoads) -> None:
        self._loads = loads
        self._under: dict[int, list[_Entry]] = {}
        self._lowest: dict[int, float] = {}
        self._trial: list[tuple[Key, int, Transfer, int, Iterator[_Entry] | None]] = []
        self._order = Count()

    def add(self, transfer: Transfer, key: Key) -> None:
        """It may start as soon as its links have room; no two transfers have the same key."""
        self._loads.route(transfer)
        transfer.key = key
        for row in transfer.rows:
            insort(self._under.setdefault(row, []), (key, transfer))
            self._lowest[row] = min(self._lowest.get(row, math.inf), transfer.wanted)
        heapq.heappush(self._trial, (key, next(self._order), transfer, -1, None))

    def remove(self, transfer: Transfer) -> None:
        """It waits no longer; nothing happens where it does not wait."""
        key, transfer.key = transfer.key, None
        if key is None:
            return
        for row in transfer.rows:
            under = self._under[row]
            del under[bisect_left(under, key, key=_key)]
            if not under:
                del self._under[row], self._lowest[row]

    def rate_changed(self, row: int) -> None:
        """Transfers over this link want another share than before."""
        for _, transfer in self._under.get(row, ()):
            self._loads.route(transfer)
            for crossed in transfer.rows:
                self._lowest[crossed] = min(self._lowest[crossed], transfer.wanted)

    def pop(self) -> Transfer | None:
        """The next transfer that its links have room for, out of the queue; start it."""
        if self._loads.freed:
            for row in self._loads.freed:
                if self._loads.free(row) >= self._lowest.get(row, math.inf):
                    self._look_on(row, iter(self._under[row].copy()))
            self._loads.freed.clear()
        while self._trial:
            _, _, transfer, row, others = heapq.heappop(self._trial)
            if others is not None:
                self._look_on(row, others)
            if transfer.key is not None and self._loads.fits(transfer):
                self.remove(transfer)
                return transfer
        return None

    def _look_on(self, row: int, waiting: Iterator[_Entry]) -> None:
        """Have the next one under a link tried, unless the link has no room for any."""
        if self._loads.free(row) < self._lowest.get(row, math.inf):
            return
        for key, transfer in waiting:
            heapq.heappush(self._trial, (key, next(self._order), transfer, row, waiting))
            return


def _key(entry: _Entry) -> Key:
    return entry[0]
