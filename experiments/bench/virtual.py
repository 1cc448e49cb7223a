"""How fast the network of the virtual engine is; results/bench/virtual.json.

`make bench ARGS=virtual`. Workers compute, push an update to the server and pull a
model, again and again; an event is the end of any of these. One process on one core.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from experiments.bench import simpy_network
from experiments.bench.report import claim, report
from mlfabric.engines.virtual.fabric import Fabric
from mlfabric.topology import BIG_SWITCH, Link

RATE_BYTES_PER_S = 1.25e9
UPDATE_BYTES = 1e8
COMPARED = {10: 3000, 30: 2000, 100: 1000}
"""Workers, and events of both models."""
SAME_EVENTS = 50
"""Events of a worker for which times are compared: who is in whose way makes a difference of one
rounding grow tenfold with every ten of them."""
SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
EVENTS = 300
SHARED = (30, 1000)
"""Flows on one link, of which the start of one and the end of another are timed together."""
REPETITIONS = 10
"""The best counts, of so many events each."""

Worker = tuple[Iterator[float], Sequence[Link], Sequence[Link]]


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    compared = {n: _compared(n, events) for n, events in COMPARED.items()}
    seconds = {n: _per_event(n) for n in SIZES}
    cycles = {n: _cycle(n) for n in SHARED}
    growth = _exponent(seconds)
    _print(compared, seconds, cycles)
    results = {
        "simpy": compared,
        "seconds_per_event": seconds,
        "growth_exponent": growth,
        "cycle_s": cycles,
        "claims": _claims(compared, growth),
    }
    return report("virtual", results)


def network(n: int) -> tuple[dict[Link, float], list[Worker]]:
    """Links of a server and of n workers, some of them slow, and what the workers do."""
    names = ["server", *(f"w{i}" for i in range(n))]
    rng = random.Random(n)
    rates = {name: RATE_BYTES_PER_S / rng.choice((1, 1, 1, 4)) for name in names}
    rates["server"] = RATE_BYTES_PER_S
    ways = ("egress", "ingress")
    capacity = {Link(name, way): rate for name, rate in rates.items() for way in ways}  # type: ignore[arg-type]
    workers: list[Worker] = [
        (_draws(i), BIG_SWITCH.path(name, "server"), BIG_SWITCH.path("server", name))
        for i, name in enumerate(names[1:])
    ]
    return capacity, workers


def _draws(seed: int) -> Iterator[float]:
    rng = random.Random(seed)
    while True:
        yield rng.uniform(0.1, 0.3)


class Loop:
    """Workers on a `Fabric`, and their timers."""

    def __init__(self, n: int) -> None:
        capacity, self.workers = network(n)
        self.fabric = Fabric(capacity)
        self.timers = [(next(w[0]), i) for i, w in enumerate(self.workers)]
        heapq.heapify(self.timers)
        self.flows: dict[int, tuple[int, int]] = {}

    def run(self, events: int) -> list[float]:
        """Go on for so many events; their times."""
        times: list[float] = []
        while len(times) < events:
            timer = self.timers[0][0] if self.timers else math.inf
            if timer < self.fabric.next_s():
                _, worker = heapq.heappop(self.timers)
                self._start(worker, 1, timer)
                times.append(timer)
                continue
            now = self.fabric.next_s()
            for flow, _ in self.fabric.advance(now):
                self._ended(*self.flows.pop(flow), now)
                times.append(now)
        return times[:events]

    def _start(self, worker: int, step: int, now: float) -> None:
        flow = self.fabric.start(self.workers[worker][step], UPDATE_BYTES, now)  # type: ignore[arg-type]
        self.flows[flow] = worker, step

    def _ended(self, worker: int, step: int, now: float) -> None:
        if step == 1:
            self._start(worker, 2, now)
        else:
            heapq.heappush(self.timers, (now + next(self.workers[worker][0]), worker))


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _best(work: Callable[[], object]) -> float:
    return min(_seconds(work) for _ in range(REPETITIONS))


def _compared(n: int, events: int) -> dict[str, float]:
    """Events per second of both models, in one run; they come to the same times."""
    Loop(2).run(10)
    loop, (capacity, workers) = Loop(n), network(n)
    times: list[list[float]] = []
    ours = _seconds(lambda: times.append(loop.run(events)))
    theirs = _seconds(
        lambda: times.append(simpy_network.run(capacity, workers, UPDATE_BYTES, events))
    )
    same = SAME_EVENTS * n
    np.testing.assert_allclose(times[0][:same], times[1][:same], rtol=1e-6)
    return {
        "events": events,
        "ours_per_s": events / ours,
        "simpy_per_s": events / theirs,
        "ratio": theirs / ours,
    }


def _per_event(n: int) -> float:
    """Seconds an event takes once every worker is at work."""
    loop = Loop(n)
    loop.run(2 * n)
    return _best(lambda: loop.run(EVENTS)) / EVENTS


def _cycle(n: int) -> float:
    """Seconds that a start and an end take where n flows share a link."""
    capacity, workers = network(n)
    fabric = Fabric(capacity)
    paths = {
        fabric.start(worker[1], UPDATE_BYTES * (1 + i / n), 0.0): worker[1]
        for i, worker in enumerate(workers)
    }

    def go_on() -> None:
        for _ in range(EVENTS):
            now = fabric.next_s()
            for flow, _ in fabric.advance(now):
                path = paths.pop(flow)
                paths[fabric.start(path, UPDATE_BYTES, now)] = path

    go_on()
    return _best(go_on) / EVENTS


def _exponent(seconds: dict[int, float]) -> float:
    """Slope of log time over log size, from 30 workers on, by least squares."""
    points = [(math.log(n), math.log(s)) for n, s in seconds.items() if n >= 30]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def _claims(compared: dict[int, dict[str, float]], growth: float) -> list[dict[str, Any]]:
    return [
        claim(
            f"SimPy's time over ours, {n} workers",
            compared[n]["ratio"],
            f"at least {least}",
            compared[n]["ratio"] >= least,
        )
        for n, least in ((10, 2), (100, 5))
    ] + [
        claim(
            "growth exponent of the time of an event, 30 to 10,000 workers",
            growth,
            "at most 1.1",
            growth <= 1.1,
        ),
    ]


def _print(
    compared: dict[int, dict[str, float]], seconds: dict[int, float], cycles: dict[int, float]
) -> None:
    for n, found in compared.items():
        ours, theirs = found["ours_per_s"], found["simpy_per_s"]
        print(f"{n:6} workers: {ours:9,.0f} events a second, SimPy {theirs:9,.0f}")
    for n, took in seconds.items():
        print(f"{n:6} workers: {took * 1e6:9.1f} μs an event")
    for n, took in cycles.items():
        print(f"{n:6} flows on one link: {took * 1e6:9.1f} μs for a start and an end")
