"""Passing sums on chunk by chunk: a stream that never overtakes what has come in."""

from __future__ import annotations

import numpy as np

from mlfabric.compiled import compiled, inner
from mlfabric.planning.kernels.paths import (
    RESIDUE,
    Floats,
    Net,
    Scratch,
    advance,
    append_piece,
    enter,
    new_scratch,
    now_and_next,
    route,
    take,
)


@inner
def _vertex(curve: Floats, size: int, time: float, share: float) -> int:
    curve[size, 0], curve[size, 1] = time, share
    return size + 1


@inner
def arriving_share(pieces: Floats, n_bytes: float, chunk_bytes: float) -> Floats:
    """What a receiver may pass on while a transfer comes in, as vertices (time, share) (v, 2).

    A chunk can be passed on once all of it is there: the share lags by one chunk, and jumps to 1 at
    the end.
    """
    curve = np.empty((len(pieces) * 2 + 2, 2))
    size, moved = 0, 0.0
    lag = min(chunk_bytes, n_bytes)
    for i in range(len(pieces)):
        start, end, rate = pieces[i, 0], pieces[i, 1], pieces[i, 2]
        carried = rate * (end - start)
        if moved + carried > lag and end < np.inf:
            begin = start + max(lag - moved, 0.0) / rate
            size = _vertex(curve, size, begin, max(moved - lag, 0.0) / n_bytes)
            size = _vertex(curve, size, end, (moved + carried - lag) / n_bytes)
        moved += carried
    end = pieces[-1, 1]
    if size == 0 or curve[size - 1, 1] < 1:
        size = _vertex(curve, size, end, curve[size - 1, 1] if size else 0.0)
        size = _vertex(curve, size, end, 1.0)
    return curve[:size]


@inner
def _share_at(curve: Floats, v: int, time: float) -> float:
    """The share of a curve at `time`, v being its last vertex that is not later (-1: none)."""
    if v < 0:
        return 0.0
    if v + 1 == len(curve):
        return float(curve[v, 1])
    width = curve[v + 1, 0] - curve[v, 0]
    rise = curve[v + 1, 1] - curve[v, 1]
    return float(curve[v, 1] + rise * (time - curve[v, 0]) / width)


@inner
def _slope(curve: Floats, v: int) -> float:
    if v < 0 or v + 1 == len(curve):
        return 0.0
    width = curve[v + 1, 0] - curve[v, 0]
    return float((curve[v + 1, 1] - curve[v, 1]) / width) if 0 < width < np.inf else 0.0


@compiled
def lowest(a: Floats, b: Floats) -> Floats:
    """The lower of two curves at each time: what all of two inputs allow to pass on."""
    curve = np.empty((4 * (len(a) + len(b)) + 4, 2))
    size, i, j = 0, -1, -1
    time = min(a[0, 0], b[0, 0])
    while True:
        before = min(_share_at(a, i, time), _share_at(b, j, time))
        while i + 1 < len(a) and a[i + 1, 0] <= time:
            i += 1
        while j + 1 < len(b) and b[j + 1, 0] <= time:
            j += 1
        of_a, of_b = _share_at(a, i, time), _share_at(b, j, time)
        share = min(of_a, of_b)
        if share > before and size:
            size = _vertex(curve, size, time, before)
        size = _vertex(curve, size, time, share)
        change = a[i + 1, 0] if i + 1 < len(a) else np.inf
        change = min(change, b[j + 1, 0] if j + 1 < len(b) else np.inf)
        if change == np.inf:
            return curve[:size]
        closing = _slope(b, j) - _slope(a, i)
        if closing != 0:
            crossing = time + (of_a - of_b) / closing
            if time < crossing < change:
                share = of_a + _slope(a, i) * (crossing - time)
                size = _vertex(curve, size, crossing, share)
        time = change


@inner
def forward(net: Net, s: Scratch, m: int, n_bytes: float, curve: Floats) -> tuple[int, float]:
    """As `stream`, but never ahead of what `curve` allows; too little room for pieces: k < 0."""
    time, sent, v, k = curve[0, 0], 0.0, 0, 0
    if m == 0:
        return 0, curve[-1, 0]
    enter(net, s, m, time)
    while True:
        while v + 1 < len(curve) and curve[v + 1, 0] <= time:
            v += 1
        rate, change = now_and_next(net, s, m)
        change = min(change, curve[v + 1, 0] if v + 1 < len(curve) else np.inf)
        inflow = _slope(curve, v) * n_bytes
        waiting = _share_at(curve, v, time) * n_bytes - sent
        steady = rate if inflow > rate * (1 - RESIDUE) else inflow  # what comes in goes on
        use = rate if waiting > RESIDUE * n_bytes else steady
        until = change
        if use > 0:
            until = min(until, time + (n_bytes - sent) / use)
        if use > steady:
            empty = time + waiting / (use - inflow)
            if empty <= time:  # so little waits that the clock cannot tell
                use = steady
            else:
                until = min(until, empty)
        if use == 0 and change == np.inf:
            return append_piece(s, k, time, np.inf, 0.0), np.inf
        if use == 0:
            until = change
        if k + 1 >= len(s.pieces):
            return -1, np.inf
        if use > 0:
            k = append_piece(s, k, time, until, use)
        sent += use * (until - time)
        time = until
        if n_bytes - sent <= RESIDUE * n_bytes:
            return k, time
        advance(net, s, m, time)


@compiled
def reserve_forwarding(
    net: Net, src: int, dst: int, n_bytes: float, curve: Floats
) -> tuple[bool, Floats]:
    """Reserve a transfer that passes on what `curve` (v, 2) says has come in."""
    s = new_scratch(net)
    m = route(net, src, dst, s.rows)
    k, _ = forward(net, s, m, n_bytes, curve)
    if k < 0:
        return False, s.pieces[:0].copy()
    return take(net, s, m, k), s.pieces[:k].copy()


@compiled
def arriving(pieces: Floats, n_bytes: float, chunk_bytes: float) -> Floats:
    """`arriving_share`, to be called from outside."""
    return arriving_share(pieces, n_bytes, chunk_bytes)
