"""Streams over paths, and reservations: profiles as rows of numbers, one row a link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlfabric.compiled import compiled, inner

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RESIDUE = 1e-9
"""A share of a rate, of a size or of a duration that is rounding."""

ULPS = 4e-15
"""A share of a point in time that is rounding."""


class Net(NamedTuple):
    """Residual profiles, one row a link, and the routes of hosts, one row a host.

    `times` and `rates` (links, room) hold `length` entries a row; `up`, `down` and `above` (hosts,
    depth) hold link rows and switch numbers on the way to the core, -1 where there is none.
    """

    times: Floats
    rates: Floats
    length: Ints
    up: Ints
    down: Ints
    above: Ints


class Scratch(NamedTuple):
    """Room for one path (rows, then positions in them), its pieces, and a new profile."""

    rows: Ints
    pieces: Floats
    times: Floats
    rates: Floats


@inner
def new_scratch(net: Net) -> Scratch:
    longest, room = 2 * net.up.shape[1], net.times.shape[1]
    return Scratch(
        np.empty(2 * longest, np.int64),
        np.empty((longest * room, 3)),
        np.empty(room),
        np.empty(room),
    )


@inner
def tolerance(span: float, now: float, count: int) -> float:
    """Sums of `count` times after `now` that are closer than this are equal but for rounding."""
    if span == np.inf:
        return 0.0
    return RESIDUE * span + count * ULPS * (abs(now) + span)


@inner
def copy_net(net: Net) -> Net:
    return Net(net.times.copy(), net.rates.copy(), net.length.copy(), net.up, net.down, net.above)


@inner
def route(net: Net, src: int, dst: int, rows: Ints) -> int:
    """Write the links from src to dst into `rows`; returns how many, 0 on one host."""
    if src == dst:
        return 0
    depth = net.up.shape[1]
    for i in range(depth):
        for j in range(depth):
            if net.up[src, i] < 0 or net.down[dst, j] < 0:
                break
            if net.above[src, i] == net.above[dst, j]:
                for step in range(i + 1):
                    rows[step] = net.up[src, step]
                for step in range(j + 1):
                    rows[i + 1 + step] = net.down[dst, j - step]
                return i + j + 2
    return 0


@inner
def _place(net: Net, row: int, time: float) -> int:
    """The entry of a profile that holds at `time`; before the origin the first."""
    low, high = 0, net.length[row]
    while high - low > 1:
        middle = (low + high) // 2
        if net.times[row, middle] <= time:
            low = middle
        else:
            high = middle
    return low


@inner
def enter(net: Net, s: Scratch, m: int, time: float) -> None:
    """Find the places of a path's m links at `time`."""
    for i in range(m):
        s.rows[m + i] = _place(net, s.rows[i], time)


@inner
def now_and_next(net: Net, s: Scratch, m: int) -> tuple[float, float]:
    """The path's rate at the present places, and when one of its links changes next."""
    rate, change = np.inf, np.inf
    for i in range(m):
        row, place = s.rows[i], s.rows[m + i]
        rate = min(rate, net.rates[row, place])
        if place + 1 < net.length[row]:
            change = min(change, net.times[row, place + 1])
    return rate, change


@inner
def advance(net: Net, s: Scratch, m: int, time: float) -> None:
    for i in range(m):
        row = s.rows[i]
        while s.rows[m + i] + 1 < net.length[row] and net.times[row, s.rows[m + i] + 1] <= time:
            s.rows[m + i] += 1


@inner
def append_piece(s: Scratch, k: int, start: float, end: float, rate: float) -> int:
    """Add a piece, or lengthen the last one; returns how many there are."""
    if k > 0 and s.pieces[k - 1, 1] == start and s.pieces[k - 1, 2] == rate:
        s.pieces[k - 1, 1] = end
        return k
    s.pieces[k, 0], s.pieces[k, 1], s.pieces[k, 2] = start, end, rate
    return k + 1


@inner
def stream(net: Net, s: Scratch, m: int, ready: float, n_bytes: float) -> tuple[int, float]:
    """All that the path in `s.rows` has free from `ready` on, until n_bytes are through.

    Writes `s.pieces`; returns how many and the end (inf if never).
    """
    if m == 0 or n_bytes <= 0:
        return 0, ready
    time, left, k = ready, n_bytes, 0
    enter(net, s, m, time)
    while True:
        rate, change = now_and_next(net, s, m)
        if rate > 0:
            end = time + left / rate
            k = append_piece(s, k, time, min(end, change), rate)
            if end <= change:
                return k, end
            left -= (change - time) * rate
        elif change == np.inf:
            return append_piece(s, k, time, np.inf, 0.0), np.inf
        time = change
        advance(net, s, m, time)


@inner
def soonest(net: Net, s: Scratch, dst: int, now: float, n_bytes: float) -> float:
    """When n_bytes can have crossed the last link to `dst`, wherever they come from."""
    s.rows[0] = net.down[dst, 0]
    return stream(net, s, int(np.int64(1)), now, n_bytes)[1]


@compiled
def finish(net: Net, src: int, dst: int, ready: float, n_bytes: float) -> float:
    """When the last of n_bytes, ready at `ready`, arrives; inf if never."""
    s = new_scratch(net)
    return stream(net, s, route(net, src, dst, s.rows), ready, n_bytes)[1]


@inner
def _room(net: Net, s: Scratch, m: int, k: int) -> bool:
    """Whether every profile of the path has room for the ends that k pieces can add to it."""
    ends = k + 1
    for i in range(1, k):
        ends += s.pieces[i, 0] != s.pieces[i - 1, 1]
    longest = 0
    for i in range(m):
        longest = max(longest, net.length[s.rows[i]])
    return bool(longest + ends <= net.times.shape[1])


@inner
def _subtract(net: Net, row: int, s: Scratch, k: int) -> None:
    """Take k pieces, in order of time, from one profile."""
    n, i, j, size = net.length[row], 0, 0, 0
    time = net.times[row, 0]
    while True:
        while i + 1 < n and net.times[row, i + 1] <= time:
            i += 1
        while j < k and s.pieces[j, 1] <= time:
            j += 1
        rate = net.rates[row, i]
        change = net.times[row, i + 1] if i + 1 < n else np.inf
        if j < k and s.pieces[j, 0] <= time:
            left = rate - s.pieces[j, 2]
            rate = left if left > RESIDUE * rate else 0.0
            change = min(change, s.pieces[j, 1])
        elif j < k:
            change = min(change, s.pieces[j, 0])
        if size == 0 or rate != s.rates[size - 1]:
            s.times[size], s.rates[size] = time, rate
            size += 1
        if change == np.inf:
            break
        time = change
    for i in range(size):
        net.times[row, i], net.rates[row, i] = s.times[i], s.rates[i]
    net.length[row] = size


@inner
def take(net: Net, s: Scratch, m: int, k: int) -> bool:
    """Reserve k pieces on the path; changes nothing and returns False without room for them."""
    if not _room(net, s, m, k):
        return False
    for i in range(m):
        _subtract(net, s.rows[i], s, k)
    return True


@compiled
def reserve(net: Net, src: int, dst: int, ready: float, n_bytes: float) -> tuple[bool, Floats]:
    """Reserve the earliest transfer; whether there was room, and its pieces (k, 3)."""
    s = new_scratch(net)
    m = route(net, src, dst, s.rows)
    k, _ = stream(net, s, m, ready, n_bytes)
    return take(net, s, m, k), s.pieces[:k].copy()


@compiled
def forget_before(net: Net, now: float) -> None:
    """Drop what every profile was before `now`."""
    for row in range(len(net.length)):
        place = _place(net, row, now)
        size = net.length[row] - place
        for i in range(size):
            net.times[row, i] = net.times[row, place + i]
            net.rates[row, i] = net.rates[row, place + i]
        net.times[row, 0] = max(net.times[row, 0], now) if place else net.times[row, 0]
        net.length[row] = size
