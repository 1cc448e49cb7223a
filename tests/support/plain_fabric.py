"""Flows on links in plain Python: at every event all is computed anew, from the definition.

Written independently of the library's network, so that it can disagree with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

NEAR = 1e-9


@dataclass
class PlainFlow:
    """`behind`: flows it forwards; `ceiling`: all that will ever come of one that was cancelled."""

    path: tuple[int, ...]
    size: float
    behind: list[PlainFlow]
    lag: float
    weight: float = 1.0
    ceiling: float = math.inf
    moved: float = 0.0
    rate: float = 0.0
    ended: float | None = None

    def limits(self) -> list[tuple[float, float]]:
        """How far it may be now because of every input, and how fast that grows."""
        found = [(self.ceiling, 0.0)]
        for other in self.behind:
            if other.ended is None:
                scale = self.size / other.size
                come = other.moved - self.lag
                held = come < -NEAR * other.size
                found.append((max(come, 0.0) * scale, 0.0 if held else other.rate * scale))
        return found

    def cap(self) -> float:
        """What it may grow by, having caught up."""
        return min(
            (pace for at, pace in self.limits() if at - self.moved <= NEAR * self.size),
            default=math.inf,
        )

    def due(self) -> list[float]:
        """Seconds until it has caught up with an input, may start, or ends."""
        left = self.size - self.moved
        waits = [left / self.rate] if self.rate > 0 else []
        waits += [0.0] if left <= NEAR * self.size else []
        for at, pace in self.limits():
            gap, closing = at - self.moved, self.rate - pace
            if gap > NEAR * self.size and closing > 1e-12 * self.rate:
                waits.append(gap / closing)
        for other in self.behind:
            left = self.lag - other.moved
            if other.ended is None and other.rate > 0 and left > NEAR * other.size:
                waits.append(left / other.rate)
        return waits


@dataclass
class PlainFabric:
    """`capacity` in bytes/s of links, which are numbers here."""

    capacity: list[float]
    in_order: bool = False
    now: float = 0.0
    flows: list[PlainFlow] = field(default_factory=list)

    def start(self, path, size, behind, lag, weight):
        """A flow behind some of those before it."""
        inputs = [self.flows[i] for i in behind if self.flows[i].ended is None]
        weight = min([weight, *(flow.weight for flow in inputs)])
        self.flows.append(PlainFlow(tuple(path), size, inputs, lag, weight))
        self._share()

    def cancel(self, number):
        """End a flow early."""
        flow = self.flows[number]
        for other in self.flows:
            if other.ended is None and any(flow is one for one in other.behind):
                scale = other.size / flow.size
                other.ceiling = min(other.ceiling, max(flow.moved - other.lag, 0.0) * scale)
        flow.ended = math.nan
        self._share()

    def set_rate(self, link, rate):
        """Change a link."""
        self.capacity[link] = rate
        self._share()

    def run(self, until: float) -> None:
        """Go on, event by event."""
        while True:
            step = min((s for f in self._live() for s in f.due()), default=math.inf)
            if step == math.inf or self.now + step > until + NEAR:
                break
            self._pass(step)
            for flow in self._live():
                if flow.size - flow.moved <= NEAR * flow.size:
                    flow.ended = self.now
            self._share()
        if until < math.inf:
            self._pass(max(until - self.now, 0.0))
            self._share()

    def _live(self) -> list[PlainFlow]:
        return [flow for flow in self.flows if flow.ended is None]

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        for flow in self._live():
            flow.moved = min(flow.moved + flow.rate * seconds, flow.size)

    def _share(self) -> None:
        """Weighted max-min fair rates under caps, again and again until caps follow rates."""
        live = self._live()
        for flow in live:
            flow.rate = math.inf
            if not flow.path:
                flow.moved = max(flow.moved, min(flow.size, *(at for at, _ in flow.limits())))
        for _ in range(300):
            before = [flow.rate for flow in live]
            rates = (self._in_order if self.in_order else self._fair)(live)
            for flow, rate in zip(live, rates, strict=True):
                flow.rate = rate
            if all(abs(a - b) <= 1e-13 * b for a, b in zip(before, rates, strict=True)):
                break

    def _in_order(self, live):
        free, rates = list(self.capacity), []
        for flow in live:
            rate = min((free[link] for link in flow.path), default=math.inf)
            flow.rate = min(rate, flow.cap())
            flow.rate = flow.rate if flow.rate < math.inf else 0.0
            rates.append(flow.rate)
            for link in flow.path:
                left = free[link] - flow.rate
                free[link] = left if left > NEAR * self.capacity[link] else 0.0
        return rates

    def _fair(self, live):
        free, rates = list(self.capacity), [-1.0] * len(live)
        caps = [flow.cap() / flow.weight for flow in live]
        while -1.0 in rates:
            users = [
                sum(f.weight for f, r in zip(live, rates, strict=True) if r < 0 and link in f.path)
                for link in range(len(free))
            ]
            shares = [max(c, 0.0) / n if n else math.inf for c, n in zip(free, users, strict=True)]
            level = min(shares + [c for c, r in zip(caps, rates, strict=True) if r < 0])
            for i, flow in enumerate(live):
                if rates[i] < 0 and min([caps[i], *(shares[x] for x in flow.path)]) <= level:
                    rates[i] = level * flow.weight if level < math.inf else 0.0
                    for link in flow.path:
                        free[link] -= rates[i]
        return rates
