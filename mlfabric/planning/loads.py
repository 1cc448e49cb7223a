"""Which transfers run now, what they take of each link, and what is free."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from mlfabric.planning.kernels.paths import Net
from mlfabric.planning.residual import SPARE, Network, Residual
from mlfabric.topology import Link

START_SHARE = 0.5
"""A transfer starts when its path has this share of its bandwidth free [ours]: it neither waits
for a slow transfer that leaves most of the link idle, nor squeezes in beside a fast one."""

ON_ONE_HOST_BYTES_PER_S = 1e12
"""What crosses no link is as good as there."""

Key = tuple[int, int, int]
"""Priority of a transfer that waits for room: the smallest goes first."""


@dataclass(eq=False, slots=True)
class Transfer:
    """A transfer from its planning to its end.

    `inputs` arrive at `src` and are passed on: chunk by chunk if `chunked`, else once all of them
    have arrived; `lacking` counts those that keep it from starting. `output` passes it on itself.
    `owner` is the group that it belongs to, `place` its number there. `links` are those of its
    path, as `rows` of the network; `key` is its priority while it waits for room on them, `wanted`
    the bytes/s that it waits for. `sources` are the inputs that had not ended when it started.
    """

    id: str
    kind: Literal["update", "sum", "copy", "model"]
    updates: tuple[str, ...]
    src: str
    dst: str
    bytes: float
    inputs: list[Transfer] = field(default_factory=list)
    chunked: bool = False
    output: Transfer | None = None
    owner: Any = None
    place: int = 0
    lacking: int = 0
    arrived: bool = False
    started_s: float | None = None
    expected_bytes_per_s: float = 0.0
    seen_bytes_per_s: float | None = None
    sources: tuple[Transfer, ...] = ()
    links: tuple[Link, ...] = ()
    rows: tuple[int, ...] = ()
    key: Key | None = None
    wanted: float = 0.0

    def remaining(self, now: float) -> float:
        """Bytes that are still to come if it runs as expected."""
        if self.started_s is None:
            return self.bytes
        return max(self.bytes - (now - self.started_s) * self.expected_bytes_per_s, 0.0)

    def seconds_left(self, now: float) -> float:
        """Time to its end if it runs as expected."""
        rate = self.expected_bytes_per_s
        return self.remaining(now) / rate if rate > 0 else math.inf

    def slowest_source(self) -> float | None:
        """Bytes/s at which the slowest of its sources has been seen to come.

        Infinite without sources; None while one has not been seen.
        """
        if not self.sources:
            return math.inf
        seen = [source.seen_bytes_per_s for source in self.sources]
        known = [rate for rate in seen if rate is not None]
        return None if len(known) < len(seen) else min(known)


class LinkLoads:
    """Running transfers, and what each takes of the links it crosses.

    Links are rows of the network. `freed` collects rows that may have gained room; whoever starts
    transfers looks at them and clears it. `changes` counts, for each row, what has happened to it.
    """

    def __init__(self, network: Network, line: Mapping[Link, float]) -> None:
        self.network = network
        self.freed: dict[int, None] = {}
        self.changes = [0] * len(line)
        self._row = network.link_row
        self._rates = [line[link] for link in self._row]
        self._taken = [0.0] * len(self._rates)
        self._on: list[dict[str, Transfer]] = [{} for _ in self._rates]
        self._running: dict[str, Transfer] = {}

    def rate(self, row: int) -> float:
        """Bytes/s that a link is believed to carry."""
        return self._rates[row]

    def free(self, row: int) -> float:
        """Bytes/s that a link has left; negative where more runs than fits."""
        return self._rates[row] - self._taken[row]

    def idle(self, row: int) -> bool:
        """Whether nothing runs on a link."""
        return not self._on[row]

    def set_rate(self, row: int, bytes_per_s: float) -> None:
        """Believe something else of a link."""
        self._rates[row] = bytes_per_s
        self.changes[row] += 1
        self.freed[row] = None

    def route(self, transfer: Transfer) -> None:
        """Find its links and what it wants of them: `START_SHARE` of the path's bandwidth."""
        if not transfer.rows:
            transfer.links = self.network.topology.path(transfer.src, transfer.dst)
            transfer.rows = tuple([self._row[link] for link in transfer.links])
        rates = [self._rates[row] for row in transfer.rows]
        transfer.wanted = START_SHARE * min(rates, default=ON_ONE_HOST_BYTES_PER_S)

    def fits(self, transfer: Transfer) -> bool:
        """Whether every link of its path has what it wants."""
        return self._room(transfer) >= transfer.wanted

    def _room(self, transfer: Transfer) -> float:
        """Bytes/s that its path has left."""
        rates, taken = self._rates, self._taken
        room = [rates[row] - taken[row] for row in transfer.rows]
        return min(room, default=ON_ONE_HOST_BYTES_PER_S)

    def start(self, transfer: Transfer, now: float) -> None:
        """Count it as running; it is expected to take what its path has free, half at least.

        One that passes on what still comes in takes no more than lets it end with its sources.
        """
        self.route(transfer)
        transfer.started_s = now
        rate = max(self._room(transfer), transfer.wanted)
        if transfer.inputs:
            transfer.sources = tuple([t for t in transfer.inputs if not t.arrived])
        if transfer.sources and transfer.kind != "model":
            waits_s = max([t.seconds_left(now) for t in transfer.sources])
            rate = transfer.bytes / max(transfer.bytes / rate, waits_s)
        transfer.expected_bytes_per_s = rate
        self._running[transfer.id] = transfer
        for row in transfer.rows:
            self._on[row][transfer.id] = transfer
            self._weigh(row)

    def correct(self, transfer: Transfer, arrived: int, bytes_per_s: float, now: float) -> None:
        """Expect it to go on as it has been seen to come: `arrived` bytes of it are there."""
        transfer.expected_bytes_per_s = bytes_per_s
        transfer.started_s = now - arrived / bytes_per_s
        if transfer.id in self._running:
            for row in transfer.rows:
                self._weigh(row)

    def stop(self, transfer_id: str) -> None:
        """Its links are free from now on; nothing happens where it does not run."""
        transfer = self._running.pop(transfer_id, None)
        if transfer is not None:
            for row in transfer.rows:
                del self._on[row][transfer_id]
                self._weigh(row)

    def _weigh(self, row: int) -> None:
        """Add up afresh what is taken of a link: sums that are kept for long would drift."""
        self.changes[row] += 1
        taken = 0.0
        for transfer in self._on[row].values():
            taken += transfer.expected_bytes_per_s
        if taken < self._taken[row]:
            self.freed[row] = None
        self._taken[row] = taken

    def first_time_at(self, row: int, bytes_per_s: float, queued: float, now: float) -> float:
        """First time at which a link has this much free, `queued` bytes having crossed it first.

        What is queued takes all that is free.
        """
        steps = self._steps(row, now)
        ends = [start for start, _ in steps[1:]] + [math.inf]
        for (start, free), end in zip(steps, ends, strict=True):
            if free > 0 and queued < free * (end - start):
                if free >= bytes_per_s:
                    return start + queued / free
                queued = 0.0
            elif free > 0:
                queued -= free * (end - start)
        return math.inf

    def _steps(self, row: int, now: float) -> list[tuple[float, float]]:
        """What is free of a link from `now` on if all goes as expected: (from when, bytes/s).

        Where more runs than fits, all are held up alike.
        """
        rate, taken = self._rates[row], self._taken[row]
        squeezed = max(taken / rate, 1.0) if rate > 0 else math.inf
        ends = sorted(
            [
                (now + t.seconds_left(now) * squeezed, t.expected_bytes_per_s / squeezed)
                for t in self._on[row].values()
            ]
        )
        steps, left = [(now, max(rate - taken, 0.0))], taken / squeezed
        for end, share in ends:
            left -= share
            free = max(rate - left, 0.0) if left > 1e-9 * rate else rate
            if end > steps[-1][0]:
                steps.append((end, free))
            else:
                steps[-1] = (steps[-1][0], free)
        return steps if steps[-1][0] < math.inf else steps[:-1]

    def residual(self, hosts: Iterable[str], queued: Iterable[Transfer], now: float) -> Residual:
        """Profiles of the links of `hosts` from `now` on, less what runs and then what is queued.

        Of what is queued, transfers from or to one of them count; so do their other hosts.
        """
        named = dict.fromkeys(hosts)
        queued = [t for t in queued if t.src in named or t.dst in named]
        ends = [host for transfer in queued for host in (transfer.src, transfer.dst)]
        network = self._part(tuple(dict.fromkeys((*named, *ends))))
        rows = [self._row[link] for link in network.link_row]
        steps = {at: self._steps(row, now) for at, row in enumerate(rows) if self._on[row]}
        room = max(map(len, steps.values()), default=1) + SPARE
        times, rates = np.zeros((2, len(rows), room))
        length = np.ones(len(rows), dtype=np.int64)
        times[:, 0] = now
        rates[:, 0] = [self._rates[row] for row in rows]
        for at, profile in steps.items():
            length[at] = len(profile)
            times[at, : len(profile)], rates[at, : len(profile)] = zip(*profile, strict=True)
        residual = Residual(network, Net(times, rates, length, *network.routes))
        for transfer in queued:
            residual.reserve(transfer.src, transfer.dst, now, transfer.bytes)
        return residual

    def _part(self, hosts: tuple[str, ...]) -> Network:
        """A network of these hosts alone; all of them where that saves little."""
        if 2 * len(hosts) >= len(self.network.hosts):
            return self.network
        return Network(hosts, self.network.topology)
