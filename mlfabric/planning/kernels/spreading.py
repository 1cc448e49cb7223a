"""A model spread along a tree, chunk by chunk: the inner loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlfabric.compiled import compiled, inner
from mlfabric.planning.kernels.forwarding import arriving_share, forward
from mlfabric.planning.kernels.paths import (
    Floats,
    Ints,
    Net,
    Scratch,
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


@inner
def _passed_on(
    net: Net,
    s: Scratch,
    found: Spread,
    server: int,
    receiver: int,
    parent: int,
    n_bytes: float,
    chunk_bytes: float,
    at_once: Floats,
) -> tuple[int, int, float]:
    """The stream from a parent (-1: the server): links, pieces (k < 0: no room for them), end."""
    source, curve = server, at_once
    if parent >= 0:
        source = found.order[parent]
        held = found.pieces[found.first[parent] : found.first[parent + 1]]
        curve = arriving_share(held, n_bytes, chunk_bytes)
    m = route(net, source, found.order[receiver], s.rows)
    k, end = forward(net, s, m, n_bytes, curve)
    return m, k, end


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
            if j >= 0 and found.pieces[found.first[j + 1] - 1, 1] > best_end:
                continue
            _, k, end = _passed_on(net, s, found, server, i, j, n_bytes, chunk_bytes, at_once)
            if k < 0:
                return False, found
            tie = tolerance(best_end - now, now, 1)
            if end < best_end - tie or (end <= best_end + tie and j >= 0):
                best, best_end = j, end
        m, k, _ = _passed_on(net, s, found, server, i, best, n_bytes, chunk_bytes, at_once)
        start = found.first[i]
        if start + k > room or not take(net, s, m, k):
            return False, found
        found.pieces[start : start + k] = s.pieces[:k]
        found.parent[i], found.first[i + 1] = best, start + k
    return True, found
