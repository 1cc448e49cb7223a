"""What is believed of each link's bandwidth, learned from transfers that were going on anyway."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlfabric.topology import BIG_SWITCH, Link, Topology

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
    topology: Topology = BIG_SWITCH
    _estimate: dict[Link, float] = field(default_factory=dict)
    _confirmed: dict[Link, float] = field(default_factory=dict)

    def rate(self, link: Link, now: float) -> float:
        """Believed rate of `link` in bytes/s."""
        if now - self._confirmed.get(link, now) > self.memory_s:
            self._estimate.pop(link, None)
        return self._estimate.get(link, self.line[link])

    def told(self, link: Link, bytes_per_s: float, now: float) -> None:
        """Somebody who knows says what the rate is (oracle)."""
        self._estimate[link] = min(bytes_per_s, self.line[link])
        self._confirmed[link] = now

    def observed(self, src: str, dst: str, seen: float, expected: float, now: float) -> None:
        """A transfer that had `expected` bytes/s to itself went at `seen`.

        A faster one proves both links. A slower one is blamed on the link whose higher rate was
        proven least recently, as the other has shown lately that it can do better.
        """
        links = self.topology.path(src, dst)
        if seen < expected * (1 - TOLERANCE):
            culprit = min(links, key=lambda link: self._confirmed.get(link, -1.0))
            self._set(culprit, seen, now)
            return
        for link in links:
            if seen > self.rate(link, now) * (1 + TOLERANCE):
                self._set(link, seen, now)
            elif seen > self.rate(link, now) * (1 - TOLERANCE):
                self._confirmed[link] = now

    def _set(self, link: Link, bytes_per_s: float, now: float) -> None:
        near_line = bytes_per_s > self.line[link] * (1 - TOLERANCE)
        self._estimate[link] = self.line[link] if near_line else bytes_per_s
        self._confirmed[link] = now
