"""The integer program of one choice of first hops [paper, appendix; time slots ours].

In the paper's letters: `flow` f[i,d,t] and `arrived` F[i,d,t] (before slot t) of every update,
where y[i,d] = 1; and for every aggregator `sum_flow` g[a,t], `complete` H[a,t] (all members are
there) and `over` C[i,t] of its members (the sum is at the server). An update sent to the server is
committed when it has arrived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlfabric.events import Update
from mlfabric.planning.exact.linear import Floats, Ints, LinearProgram, weighted
from mlfabric.planning.exact.slots import Slots
from mlfabric.topology import Link


@dataclass(frozen=True)
class Solved:
    """Slots after which each update is committed; empty where no plan was found.

    Their sum cannot be below `least_total`; with `proven` nothing is left to find.
    """

    completions: tuple[int, ...]
    least_total: int
    proven: bool


class Program:
    """Updates that go to `hops` first and complete within `total` slots together."""

    def __init__(self, slots: Slots, hops: Sequence[str], total: int) -> None:
        self.slots = slots
        self.linear = LinearProgram()
        self._unit = max(update.bytes for update in slots.batch.updates)
        self._flows: dict[Link, list[Ints]] = {}
        arrived = {u.id: self._moved(u, hop) for u, hop in zip(self._updates, hops, strict=True)}
        self.committed = [arrived[update.id] for update in self._updates]
        for host, members in slots.groups(hops).items():
            over = self._summed(host, members, [arrived[update.id] for update in members])
            for update in members:
                self.committed[self._updates.index(update)] = over
        self._add_capacities()
        self._add_aim(total)

    @property
    def _updates(self) -> tuple[Update, ...]:
        return self.slots.batch.updates

    def _moved(self, update: Update, dst: str) -> Ints:
        """Whether the update has arrived before each slot, and at the end."""
        ready = self.slots.ready(update)
        if update.worker != dst:
            return self._crossed(update.worker, dst, update.bytes, ready)
        arrived = self._indicator()
        self.linear.forbid(arrived[:ready])
        return arrived

    def _summed(self, host: str, members: Sequence[Update], arrived: Sequence[Ints]) -> Ints:
        """Whether the members' sum has crossed from `host` to the server before each slot."""
        complete = self._indicator()
        for member in arrived:
            self.linear.not_above(complete, member)
        size, ready = self.slots.batch.sum_bytes(members), self.slots.collected(host, members)
        return self._crossed(host, self.slots.batch.server, size, ready, complete)

    def _indicator(self) -> Ints:
        """Turns from 0 to 1 once; at the end it is 1."""
        indicator = self.linear.binary(self.slots.count + 1)
        self.linear.not_above(indicator[:-1], indicator[1:])
        self.linear.row(1.0, [(1.0, indicator[-1])])
        return indicator

    def _crossed(
        self, src: str, dst: str, n_bytes: float, ready: int, started: Ints | None = None
    ) -> Ints:
        """Whether these bytes have crossed, none before slot `ready` nor before `started`."""
        slots, size = self.slots, n_bytes / self._unit
        room = slots.room(src, dst) / self._unit
        flow, arrived = self.linear.amount(slots.count), self._indicator()
        self.linear.forbid(flow[:ready])
        self.linear.forbid(arrived[: slots.arrival(room, ready, size)])
        self.linear.row(size, weighted(1.0, flow), size)
        for t in range(slots.count):
            self.linear.row(0.0, [*weighted(1.0, flow[:t]), (-size, arrived[t])])
            may, least = ([], -room[t]) if started is None else ([(room[t], started[t])], 0.0)
            self.linear.row(least, [*may, (-room[t], arrived[t]), (-1.0, flow[t])])
        self._add_busy_time(flow, arrived, size, room)
        for link in slots.path(src, dst):
            self._flows.setdefault(link, []).append(flow)
        return arrived

    def _add_busy_time(self, flow: Ints, arrived: Ints, size: float, room: Floats) -> None:
        """The mean time of a flow is at least half its shortest duration before its end.

        Not needed, but closes most of the gap of the relaxed program.
        """
        fastest = room.max()
        whole, rest = divmod(size / fastest, 1.0)
        before_end = (whole * whole / 2 + rest * whole + rest / 2) * fastest / size
        mean = [(-(t + 0.5) / size, variable) for t, variable in enumerate(flow)]
        count = self.slots.count
        self.linear.row(before_end - count, [*weighted(-1.0, arrived[:count]), *mean])

    def _add_capacities(self) -> None:
        for link, flows in self._flows.items():
            for t, n_bytes in enumerate(self.slots.capacity[link]):
                crossing = weighted(1.0, [flow[t] for flow in flows])
                self.linear.row(0.0, crossing, n_bytes / self._unit)

    def _add_aim(self, total: int) -> None:
        """Few slots pass before updates are committed, `total` at most."""
        passed = np.concatenate([committed[:-1] for committed in self.committed])
        self.linear.maximize(passed)
        self.linear.row(len(passed) - total, weighted(1.0, passed))

    def solve(self, time_limit_s: float) -> Solved:
        """Raises SettingError where SciPy is missing."""
        solution = self.linear.solve(time_limit_s)
        if solution.values is None:
            completions: tuple[int, ...] = ()
        else:
            ends = [np.argmax(solution.values[row] > 0.5) for row in self.committed]
            completions = tuple(map(int, ends))
        most = solution.bound if math.isfinite(solution.bound) else sum(map(len, self.committed))
        least = math.ceil(len(self.committed) * self.slots.count - most - 1e-6)
        return Solved(completions, least, solution.proven)
