"""Updates of which nothing has been sent."""

from __future__ import annotations

import heapq
import itertools

from mlfabric.counting import Count
from mlfabric.errors import ProtocolError
from mlfabric.events import Update


class WaitingUpdates:
    """In the order in which they were announced; those of old versions are found at once."""

    def __init__(self) -> None:
        self._updates: dict[str, Update] = {}
        self._by_version: list[tuple[int, int, str]] = []
        self._order = Count()
        self._bytes = 0

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._updates)

    @property
    def mean_bytes(self) -> float:
        """Mean size of an update; there must be one."""
        return self._bytes / self.count

    def add(self, update: Update) -> None:
        """Raises ProtocolError for one that waits already."""
        if update.id in self._updates:
            raise ProtocolError(f"update {update.id} was announced twice")
        self._updates[update.id] = update
        self._bytes += update.bytes
        heapq.heappush(self._by_version, (update.version, next(self._order), update.id))

    def remove(self, update: Update) -> None:
        """It is sent or dropped; raises KeyError for one that does not wait."""
        del self._updates[update.id]
        self._bytes -= update.bytes

    def take_of(self, worker: str) -> list[Update]:
        """Those of a worker; they wait no longer."""
        found = [update for update in self._updates.values() if update.worker == worker]
        for update in found:
            self.remove(update)
        return found

    def longest(self, count: int) -> tuple[Update, ...]:
        """Those that have waited longest, in their order."""
        return tuple(itertools.islice(self._updates.values(), count))

    def take_older_than(self, version: int) -> list[Update]:
        """Those of an older version, in the order of their versions; they wait no longer."""
        found = []
        while self._by_version and self._by_version[0][0] < version:
            _, _, name = heapq.heappop(self._by_version)
            if name in self._updates:
                found.append(self._updates[name])
                self.remove(found[-1])
        return found
