"""Rates of links as a straggler trace has them, for whoever shapes them by time alone."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping

from mlfabric.emulation.spec import RateEvent


class PlayedTrace:
    """Bytes/s of every host's link at any time of the run's clock."""

    def __init__(self, bandwidths: Mapping[str, float], events: Iterable[RateEvent]) -> None:
        self._bandwidths = dict(bandwidths)
        self._times: dict[str, list[float]] = defaultdict(list)
        self._factors: dict[str, list[float]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event.time_s):
            self._times[event.host].append(event.time_s)
            self._factors[event.host].append(event.factor)

    def rate(self, host: str, now_s: float) -> float:
        """Of one host, each way."""
        place = bisect_right(self._times[host], now_s)
        factor = self._factors[host][place - 1] if place else 1.0
        return self._bandwidths[host] * factor

    def rates(self, now_s: float) -> tuple[float, ...]:
        """Of all hosts, in their order."""
        return tuple(self.rate(host, now_s) for host in self._bandwidths)
