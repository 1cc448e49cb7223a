"""A model spread along a tree, chunk by chunk: the inner loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlfabric.compiled import compiled
from mlfabric.planning.kernels.forwarding import arriving_share, forward
from mlfabric.planning.kernels.paths import (
    Floats,
    Ints,
    Net,
    new_scratch,
    route,
    stream,
    take,
    tolerance,
)


class Spread(NamedTuple):
    """Receivers in the order in which they are attached (rows of `order`).

    `parent` is the place of the one before it in the tree, -1 for the server; the pieces of the
    i-th are `pieces[first[i]:first[i + 1]]`, (k, 3).
    """

    order: Ints
    parent: Ints
    first: Ints
    pieces: Floats


@compiled
def spread(
    net: Net, server: int, receivers: Ints, n_bytes: float, chunk_bytes: float, now: float
) -> tuple[bool, Spread]:
    """Attach each receiver where all of the model reaches it first; whether there was room.

    Those that the server alone would reach first are attached first. Between equal ends a receiver
    is preferred to the server, the earlier attached one among receivers.
    """
    n, s = len(receivers), new_scratch(net)
    alone = np.empty(n)
    for i in range(n):
        m = route(net, server, receivers[i], s.rows)
        alone[i] = stream(net, s, m, now, n_bytes)[1]
    places = np.argsort(alone, kind="mergesort")
    room = (n + 1) * net.times.shape[1]
    found = Spread(
        receivers[places], np.full(n, -1), np.zeros(n + 1, np.int64), np.empty((room, 3))
    )
    at_once = np.array([[now, 0.0], [now, 1.0]])
    for i in range(n):
        best, best_end = -1, np.inf
        for j in range(i - 1, -2, -1):
            source = server if j < 0 else found.order[j]
            curve = at_once
            if j >= 0:
                held = found.pieces[found.first[j] : found.first[j + 1]]
                if held[-1, 1] > best_end:
                    continue
                curve = arriving_share(held, n_bytes, chunk_bytes)
            m = route(net, source, found.order[i], s.rows)
            k, end = forward(net, s, m, n_bytes, curve)
            if k < 0:
                return False, found
            tie = tolerance(best_end, now)
            if end < best_end - tie or (end <= best_end + tie and j >= 0):
                best, best_end = j, end
        source = server if best < 0 else found.order[best]
        curve = at_once
        if best >= 0:
            held = found.pieces[found.first[best] : found.first[best + 1]]
            curve = arriving_share(held, n_bytes, chunk_bytes)
        m = route(net, source, found.order[i], s.rows)
        k, _ = forward(net, s, m, n_bytes, curve)
        start = found.first[i]
        if start + k > room or not take(net, s, m, k):
            return False, found
        found.pieces[start : start + k] = s.pieces[:k]
        found.parent[i], found.first[i + 1] = best, start + k
    return True, found
