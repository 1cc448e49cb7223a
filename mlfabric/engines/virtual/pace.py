"""How long bytes take on given paths whose links change as the straggler trace says."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mlfabric.engines.virtual.plan import VirtualPlan
from mlfabric.topology import Link

Floats = NDArray[np.float64]


class Pace:
    """Rates of paths over time, bytes/s; a path that crosses no link is infinitely fast."""

    def __init__(self, plan: VirtualPlan, paths: Sequence[Sequence[Link]]) -> None:
        changes: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for event in sorted(plan.rate_events, key=lambda event: event.time_s):
            changes[event.host].append((event.time_s, event.factor))
        self._profiles = [_profile(plan, path, changes) for path in paths]
        self._times = sorted({time for times, _ in self._profiles for time in times[1:]})
        self._rates = np.zeros(0)
        self._valid = (math.inf, -math.inf)

    def ends(self, begin_s: Floats, n_bytes: float) -> Floats:
        """When `n_bytes` that begin on each path at `begin_s` (one a path) have passed."""
        since, until = self._valid
        if not since <= begin_s.min() < until:
            self._look_up(float(begin_s.min()))
            since, until = self._valid
        ends: Floats = begin_s + n_bytes / self._rates
        for path in np.flatnonzero(ends > until).tolist():
            ends[path] = _end(*self._profiles[path], float(begin_s[path]), n_bytes)
        return ends

    def _look_up(self, now: float) -> None:
        """The rates at `now`, and from when till when they are valid."""
        place = bisect.bisect_right(self._times, now)
        since = self._times[place - 1] if place else -math.inf
        self._valid = (since, self._times[place] if place < len(self._times) else math.inf)
        at = [rates[bisect.bisect_right(times, now) - 1] for times, rates in self._profiles]
        self._rates = np.array(at)


def _profile(
    plan: VirtualPlan, path: Sequence[Link], changes: dict[str, list[tuple[float, float]]]
) -> tuple[list[float], list[float]]:
    """Times, the first -inf, and the path's rate from each on: that of its slowest link."""
    factors = {link.host: 1.0 for link in path}
    moments = sorted((time, host, f) for host in factors for time, f in changes.get(host, ()))
    times, rates = [-math.inf], [_slowest(plan, path, factors)]
    for time_s, host, factor in moments:
        factors[host] = factor
        times.append(time_s)
        rates.append(_slowest(plan, path, factors))
    return times, rates


def _slowest(plan: VirtualPlan, path: Sequence[Link], factors: dict[str, float]) -> float:
    rates = (plan.link_bytes_per_s[link] * factors[link.host] for link in path)
    return min(rates, default=math.inf) * plan.goodput


def _end(times: list[float], rates: list[float], begin_s: float, n_bytes: float) -> float:
    """When bytes that begin at `begin_s` have passed a path, change by change."""
    place, now, left = bisect.bisect_right(times, begin_s) - 1, begin_s, n_bytes
    while place + 1 < len(times) and now + left / rates[place] > times[place + 1]:
        left -= (times[place + 1] - now) * rates[place]
        place, now = place + 1, times[place + 1]
    return now + left / rates[place]
