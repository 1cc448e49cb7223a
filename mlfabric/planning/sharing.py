"""Max-min fair sharing, which TCP approximates: what time-sharing is compared with [paper, Fig. 1].

Every update is sent straight to the server as soon as it is ready, beside all the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import cast

import numpy as np

from mlfabric.planning.batch import Batch, Dropped, Group, Plan, PlannedTransfer
from mlfabric.planning.commits import commit_times
from mlfabric.planning.kernels import filling
from mlfabric.planning.kernels.paths import RESIDUE, Floats, Ints
from mlfabric.planning.profile import Piece, Profile
from mlfabric.planning.residual import Residual
from mlfabric.topology import Link


def fair_rates(flows: Sequence[Sequence[int]], capacity: Sequence[float]) -> list[float]:
    """Max-min fair rates of flows that cross the given links, by progressive filling.

    All rates grow together until a link is full; its flows keep their rate, the others go on. A
    flow that crosses no link has an infinite rate. `capacity` is indexed by link.
    """
    rates = filling.fill(_padded(flows), np.array(capacity, dtype=np.float64))
    return cast(list[float], rates.tolist())


def _padded(flows: Sequence[Sequence[int]]) -> Ints:
    """Links of each flow, one row a flow, with -1 after its last."""
    rows = np.full((len(flows), max(map(len, flows), default=0)), -1, dtype=np.int64)
    for flow, links in enumerate(flows):
        rows[flow, : len(links)] = links
    return rows


def plan_fair(batch: Batch) -> Plan:
    """Send every update at once and straight, at max-min fair rates that follow the profiles.

    The server commits updates as they arrive. With a delay bound it reorders them: it holds one
    back while another, on its way or arrived, would come too late behind it, and drops those for
    which that is not enough; their bytes have crossed the network all the same.
    """
    flows = _Flows(batch)
    flows.run()
    transfers = [
        PlannedTransfer((update.id,), update.worker, batch.server, tuple(pieces))
        for update, pieces in zip(batch.updates, flows.pieces, strict=True)
    ]
    kept, dropped = _in_time(batch, flows.arrivals)
    groups = _groups(batch, kept, transfers, flows.arrivals)
    return Plan(groups, dropped, left_after(batch.residual, transfers))


def _groups(
    batch: Batch, kept: Sequence[int], transfers: Sequence[PlannedTransfer], ends: Sequence[float]
) -> tuple[Group, ...]:
    members = [(batch.updates[flow],) for flow in kept]
    arrivals = [ends[flow] for flow in kept]
    commits = commit_times(members, arrivals, batch.version, batch.delay_bound)
    return tuple(
        Group(members[i], None, (transfers[kept[i]],), arrivals[i], commit_s, version)
        for version, (i, commit_s) in enumerate(commits, batch.version)
    )


def left_after(residual: Residual, transfers: Iterable[PlannedTransfer]) -> Residual:
    """What links have left after transfers whose pieces are given and may overlap in time."""
    network, taken = residual.network, defaultdict[Link, list[Piece]](list)
    for transfer in transfers:
        for link in network.topology.path(transfer.src, transfer.dst):
            taken[link] += transfer.pieces
    profiles = residual.profiles()
    changed = {link: _without(profiles[link], pieces) for link, pieces in taken.items()}
    return network.residual(profiles | changed)


class _Flows:
    """All updates on their way: when each arrives (inf: never), and its rate over time."""

    def __init__(self, batch: Batch) -> None:
        path = batch.residual.network.topology.path
        paths = [path(update.worker, batch.server) for update in batch.updates]
        crossed = dict.fromkeys(link for links in paths for link in links)
        row = {link: number for number, link in enumerate(crossed)}
        self._links = [batch.residual.profile(link) for link in row]
        self._rows = _padded([[row[link] for link in links] for links in paths])
        self._ready = np.array([batch.ready_s(update) for update in batch.updates])
        self._left = np.array([float(update.bytes) for update in batch.updates])
        self._rounding = RESIDUE * self._left
        self._arrivals = np.full(len(paths), np.inf)
        self.pieces: list[list[Piece]] = [[] for _ in paths]

    @property
    def arrivals(self) -> list[float]:
        """When each update is at the server."""
        return cast(list[float], self._arrivals.tolist())

    def run(self) -> None:
        """Go from change to change: a link's bandwidth changes, or a flow begins or ends."""
        changes = sorted({time for profile in self._links for time in profile.times})
        for begin, until in pairwise([-math.inf, *changes, math.inf]):
            capacity = np.array([profile.rate_at(begin) for profile in self._links])
            now = max(begin, self._ready.min(initial=math.inf))
            while now < until:
                now = self._step(now, until, capacity)

    def _step(self, now: float, until: float, capacity: Floats) -> float:
        """Let all that is ready go on until a flow begins or ends; returns when that is."""
        going = np.flatnonzero(np.isinf(self._arrivals) & (self._ready <= now))
        rates = filling.fill(self._rows[going], capacity)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = now + self._left[going] / rates
            begins = self._ready[self._ready > now]
            end = float(min(until, ends.min(initial=math.inf), begins.min(initial=math.inf)))
            sent = np.where(ends <= end, self._left[going], rates * (end - now))
        self._left[going] -= sent
        self._arrivals[going[self._left[going] <= self._rounding[going]]] = end
        for flow, rate in zip(going.tolist(), rates.tolist(), strict=True):
            if 0 < rate < math.inf or end == math.inf:
                _append(self.pieces[flow], Piece(now, end, rate))
        return end


def _append(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece, or lengthen the last one where only rounding tells their rates apart.

    A piece too short for the clock is added only as the first, so that every transfer has an end.
    """
    start, end, rate = piece
    if not pieces:
        pieces.append(piece)
    elif pieces[-1].end == start and math.isclose(pieces[-1].bytes_per_s, rate, rel_tol=RESIDUE):
        pieces[-1] = pieces[-1]._replace(end=end)
    elif end > start:
        pieces.append(piece)


def _without(profile: Profile, taken: Sequence[Piece]) -> Profile:
    """A profile less pieces that may overlap each other, from its origin on."""
    starts, ends, used = np.array(taken).T
    bounds = np.unique(np.concatenate([profile.times, starts, ends]))
    times = bounds[(bounds >= profile.times[0]) & (bounds < math.inf)]
    rates = np.array([profile.rate_at(time) for time in times.tolist()])
    change, busy = np.zeros(len(times) + 1), np.zeros(len(times) + 1, dtype=np.int64)
    for at, sign in ((starts, 1), (ends, -1)):
        np.add.at(change, np.searchsorted(times, at), sign * used)
        np.add.at(busy, np.searchsorted(times, at), sign)
    left = rates - np.where(np.cumsum(busy) > 0, np.cumsum(change), 0.0)[:-1]
    left[left <= RESIDUE * rates] = 0.0
    changes = np.flatnonzero(np.diff(left, prepend=np.nan) != 0)
    return Profile(tuple(times[changes].tolist()), tuple(left[changes].tolist()))


def _in_time(batch: Batch, arrivals: Sequence[float]) -> tuple[list[int], tuple[Dropped, ...]]:
    """Which updates can be committed within the bound, in an order that keeps it, and which not.

    Committing the oldest first loses the fewest; of equally old ones the last to arrive is lost.
    """
    flows = list(range(len(arrivals)))
    if batch.delay_bound is None:
        return flows, ()
    kept: list[int] = []
    dropped: list[Dropped] = []
    for flow in sorted(flows, key=lambda flow: (batch.updates[flow].version, arrivals[flow])):
        delay = batch.version + len(kept) - batch.updates[flow].version
        if delay > batch.delay_bound:
            dropped.append(Dropped(batch.updates[flow], delay))
        else:
            kept.append(flow)
    return kept, tuple(dropped)
