"""What is believed of each link's bandwidth, learned from transfers that were going on anyway."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlfabric.topology import Link

TOLERANCE = 0.15
"""A rate this close to the expected one is noise, and no news [ours]."""


@dataclass
class RateEstimator:
    """Estimates in bytes/s for every link; starts from the line rates.

    An estimate below the line rate that nothing confirmed for `memory_s` seconds goes back to the
    line rate, so that a link that has recovered is tried again.
    """

    line: Mapping[Link, float]
    memory_s: float
    _estimate: dict[Link, float] = field(default_factory=dict)
    _confirmed: dict[Link, float] = field(default_factory=dict)
    _due: list[tuple[float, Link]] = field(default_factory=list)
    _changed: dict[Link, None] = field(default_factory=dict)

    def rate(self, link: Link, now: float) -> float:
        """Believed rate of `link` in bytes/s."""
        if link in self._estimate and self._forgettable(link, now):
            self._believe(link, self.line[link])
        return self._estimate.get(link, self.line[link])

    def changes(self, now: float) -> list[Link]:
        """Links of which something else is believed than when this was last asked."""
        if not self._changed and not (self._due and self._due[0][0] <= now):
            return []
        kept = []
        while self._due and self._due[0][0] <= now:
            _, link = heapq.heappop(self._due)
            if self.rate(link, now) < self.line[link]:
                kept.append((self._confirmed[link] + self.memory_s, link))
        for entry in kept:
            heapq.heappush(self._due, entry)
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def doubtful(self, now: float, after_s: float) -> list[Link]:
        """Links believed to be slow that nothing has confirmed for `after_s` seconds."""
        return [link for link in self._estimate if now - self._confirmed[link] > after_s]

    def told(self, link: Link, bytes_per_s: float, now: float) -> None:
        """Somebody who knows says what the rate is (oracle)."""
        self._confirmed[link] = now
        self._believe(link, min(bytes_per_s, self.line[link]))

    def observed(self, links: Sequence[Link], seen: float, expected: float, now: float) -> None:
        """A transfer over `links` that had `expected` bytes/s to itself went at `seen`.

        A faster one proves both links. A slower one is blamed on the link whose higher rate was
        proven least recently, as the other has shown lately that it can do better.
        """
        if seen < expected * (1 - TOLERANCE):
            culprit = min(links, key=lambda link: self._confirmed.get(link, -1.0))
            self._set(culprit, seen, now)
            return
        for link in links:
            believed = self.rate(link, now)
            if seen > believed * (1 + TOLERANCE):
                self._set(link, seen, now)
            elif seen > believed * (1 - TOLERANCE):
                self._confirmed[link] = now

    def _set(self, link: Link, bytes_per_s: float, now: float) -> None:
        near_line = bytes_per_s > self.line[link] * (1 - TOLERANCE)
        self._confirmed[link] = now
        self._believe(link, self.line[link] if near_line else bytes_per_s)

    def _believe(self, link: Link, bytes_per_s: float) -> None:
        """Keep an estimate only while it is below the line rate."""
        line = self.line[link]
        if bytes_per_s == self._estimate.get(link, line):
            return
        self._changed[link] = None
        if bytes_per_s == line:
            del self._estimate[link]
            return
        if link not in self._estimate and self.memory_s < math.inf:
            heapq.heappush(self._due, (self._confirmed[link] + self.memory_s, link))
        self._estimate[link] = bytes_per_s

    def _forgettable(self, link: Link, now: float) -> bool:
        return now - self._confirmed.get(link, now) > self.memory_s
