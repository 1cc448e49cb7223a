"""The network of `experiments.bench.virtual` as one would write it with SimPy."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from mlfabric.topology import Link


@dataclass(eq=False)
class Flow:
    """`done` happens when all bytes are through."""

    path: Sequence[Link]
    n_bytes: float
    left: float
    done: simpy.Event
    rate: float = 0.0


class Network:
    """Max-min fair rates of all flows, computed anew at each change."""

    def __init__(self, env: simpy.Environment, capacity: Mapping[Link, float]) -> None:
        self.env = env
        self.capacity = capacity
        self.flows: list[Flow] = []
        self.updated = 0.0
        self.watch = env.process(self._watch())

    def transfer(self, path: Sequence[Link], n_bytes: float) -> simpy.Event:
        """Start a flow; the event that it is through."""
        self._pass_time()
        flow = Flow(path, n_bytes, n_bytes, self.env.event())
        self.flows.append(flow)
        self._share()
        self.watch.interrupt()
        return flow.done

    def _watch(self) -> Generator[simpy.Event, None, None]:
        while True:
            try:
                waits = [f.left / f.rate for f in self.flows if f.rate > 0]
                yield self.env.timeout(min(waits)) if waits else self.env.event()
                self._end()
            except simpy.Interrupt:
                pass

    def _end(self) -> None:
        self._pass_time()
        for flow in [f for f in self.flows if f.left <= 1e-9 * f.n_bytes]:
            self.flows.remove(flow)
            flow.done.succeed()
        self._share()

    def _pass_time(self) -> None:
        for flow in self.flows:
            flow.left -= flow.rate * (self.env.now - self.updated)
        self.updated = self.env.now

    def _share(self) -> None:
        """Progressive filling."""
        users: dict[Link, set[Flow]] = {}
        for flow in self.flows:
            for link in flow.path:
                users.setdefault(link, set()).add(flow)
        free = {link: self.capacity[link] for link in users}
        while users:
            full = min(users, key=lambda link: free[link] / len(users[link]))
            share = free[full] / len(users[full])
            for flow in list(users[full]):
                flow.rate = share
                for link in flow.path:
                    free[link] -= share
                    users[link].discard(flow)
            users = {link: flows for link, flows in users.items() if flows}


def run(
    capacity: Mapping[Link, float],
    workers: Sequence[tuple[Iterator[float], Sequence[Link], Sequence[Link]]],
    n_bytes: float,
    events: int,
) -> list[float]:
    """Times of so many events: workers compute, push and pull, again and again."""
    env = simpy.Environment()
    network = Network(env, capacity)
    times: list[float] = []
    enough = env.event()

    def note() -> None:
        times.append(env.now)
        if len(times) == events:
            enough.succeed()

    def work(compute_s: Iterator[float], push: Any, pull: Any) -> Iterator[simpy.Event]:
        while True:
            yield env.timeout(next(compute_s))
            note()
            for path in (push, pull):
                yield network.transfer(path, n_bytes)
                note()

    for worker in workers:
        env.process(work(*worker))  # type: ignore[arg-type]
    env.run(enough)
    return times
