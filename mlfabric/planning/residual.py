"""Free bandwidth of every link over time, and reservations on paths [paper, Fig. 4]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlfabric.planning.kernels import forwarding, paths
from mlfabric.planning.kernels.paths import Net
from mlfabric.planning.profile import Piece, Profile
from mlfabric.topology import BIG_SWITCH, Link, Topology

SPARE = 64
"""Room for this many more changes of rate in every profile; doubled when it does not suffice."""


@dataclass(frozen=True)
class Network:
    """Hosts and links by number, so that compiled code can work on them."""

    hosts: tuple[str, ...]
    topology: Topology = BIG_SWITCH

    @cached_property
    def host_row(self) -> dict[str, int]:
        """The number of every host."""
        return {host: row for row, host in enumerate(self.hosts)}

    @cached_property
    def link_row(self) -> dict[Link, int]:
        """The number of every link."""
        switches = {node for host in self.hosts for node in self.topology.climb(host)[1:]}
        links = [Link(h, way) for h in self.hosts for way in ("egress", "ingress")]
        links += [Link(s, way) for s in sorted(switches) for way in ("up", "down")]
        return {link: row for row, link in enumerate(links)}

    @cached_property
    def routes(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """For every host: links on the way up, on the way down, the switch above each; -1: none."""
        if not self.topology.above:  # the same as below, without climbing
            first = 2 * np.arange(len(self.hosts))[:, np.newaxis]
            return first, first + 1, np.zeros_like(first)
        climbs = [self.topology.climb(host) for host in self.hosts]
        depth = max(map(len, climbs), default=1)
        shape = (len(self.hosts), depth)
        up, down, above = np.full((3, *shape), -1, dtype=np.int64)
        switches: dict[str, int] = {}
        for row, climb in enumerate(climbs):
            for step, node in enumerate(climb):
                up[row, step] = self.link_row[Link(node, "up" if step else "egress")]
                down[row, step] = self.link_row[Link(node, "down" if step else "ingress")]
                over = climb[step + 1] if step + 1 < len(climb) else ""
                above[row, step] = switches.setdefault(over, len(switches))
        return up, down, above

    def residual(self, links: Mapping[Link, Profile]) -> Residual:
        """What is free where nothing is reserved; `links` has a profile for every link."""
        profiles = [links[link] for link in self.link_row]
        capacity = max((len(p.times) for p in profiles), default=1) + SPARE
        times = np.zeros((len(profiles), capacity))
        rates = np.zeros((len(profiles), capacity))
        length = np.zeros(len(profiles), dtype=np.int64)
        for row, profile in enumerate(profiles):
            size = len(profile.times)
            times[row, :size], rates[row, :size] = profile.times, profile.rates
            length[row] = size
        return Residual(self, Net(times, rates, length, *self.routes))


class Residual:
    """Piecewise-constant bytes/s that every link has free. Reserving changes it; copy it first."""

    def __init__(self, network: Network, net: Net) -> None:
        self.network = network
        self.net = net

    def copy(self) -> Residual:
        """One that can be reserved on without changing this one."""
        net = self.net
        changing = (net.times.copy(), net.rates.copy(), net.length.copy())
        return Residual(self.network, Net(*changing, *net[3:]))

    @property
    def entries(self) -> int:
        """How many stretches of constant rate the profiles of all links hold together."""
        return int(self.net.length.sum())

    def profile(self, link: Link) -> Profile:
        """What one link has free."""
        row = self.network.link_row[link]
        size = self.net.length[row]
        return Profile(
            tuple(self.net.times[row, :size].tolist()), tuple(self.net.rates[row, :size].tolist())
        )

    def profiles(self) -> dict[Link, Profile]:
        """What every link has free."""
        return {link: self.profile(link) for link in self.network.link_row}

    def finish(self, src: str, dst: str, ready: float, n_bytes: float) -> float:
        """t_end: when the last byte arrives; `ready` itself on one host, inf if it never does."""
        return float(paths.finish(self.net, *self._rows(src, dst), float(ready), float(n_bytes)))

    def reserve(self, src: str, dst: str, ready: float, n_bytes: float) -> tuple[Piece, ...]:
        """Reserve the earliest transfer: all that the path has free from `ready` on, until done.

        Returns its stretches of constant rate, those without bandwidth left out; none on one host.
        """
        way = (*self._rows(src, dst), float(ready), float(n_bytes))
        return self._booked(lambda net: paths.reserve(net, *way))

    def reserve_forwarding(
        self, src: str, dst: str, n_bytes: float, curve: NDArray[np.float64]
    ) -> tuple[Piece, ...]:
        """Reserve the earliest transfer of what has come in: `curve` (vertices; time, share)."""
        way = (*self._rows(src, dst), float(n_bytes), curve)
        return self._booked(lambda net: forwarding.reserve_forwarding(net, *way))

    def work_out(self, attempt: Callable[[Net], tuple[Any, ...]]) -> tuple[Any, ...]:
        """What `attempt` returns after its first item, worked out on a copy.

        It returns False first where profiles had too little room; then it starts again with more.
        """
        trial = self.copy()
        while True:
            done, *results = attempt(trial.net)
            if done:
                return tuple(results)
            room = 2 * trial.net.times.shape[1]
            trial = self.copy()
            trial._widen(room)

    def _rows(self, src: str, dst: str) -> tuple[int, int]:
        row = self.network.host_row
        return row[src], row[dst]

    def _booked(
        self, attempt: Callable[[Net], tuple[bool, NDArray[np.float64]]]
    ) -> tuple[Piece, ...]:
        """Pieces that `attempt` reserved; one without enough room has changed nothing."""
        done, pieces = attempt(self.net)
        while not done:
            self._widen(2 * self.net.times.shape[1])
            done, pieces = attempt(self.net)
        return tuple(map(Piece._make, pieces.tolist()))

    def _widen(self, room: int) -> None:
        net = self.net
        more = ((0, 0), (0, room - net.times.shape[1]))
        self.net = net._replace(times=np.pad(net.times, more), rates=np.pad(net.rates, more))

    def first_time_at(self, link: Link, bytes_per_s: float, start: float) -> float:
        """First time from `start` on at which `link` has at least this free; inf if never."""
        profile = self.profile(link)
        if profile.rate_at(start) >= bytes_per_s:
            return start
        later = zip(profile.times, profile.rates, strict=True)
        return next((t for t, rate in later if t > start and rate >= bytes_per_s), float("inf"))

    def forget_before(self, now: float) -> None:
        """Drop every change of rate that is past: profiles of a long run stay short."""
        paths.forget_before(self.net, float(now))
