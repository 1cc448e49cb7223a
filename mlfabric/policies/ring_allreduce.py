"""Bandwidth-optimal ring all-reduce over point-to-point messages ("RR-Sync").

The vector is cut into n shares. Each travels the ring once to be summed, and once more to be known
by all: 2 (n - 1) / n of the vector crosses every link. Shares are also cut into lanes of at most
one chunk, so that a worker passes one lane on while the next arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mlfabric.payload import STRIPE, Payload, dense
from mlfabric.policies.base import MomentumOptions, Piece, PolicyContext, Rounds
from mlfabric.policies.parts.chains import chained

PLACE: Literal["workers"] = "workers"
Options = MomentumOptions


class Ring:
    """The same ring for every vector."""

    measures = False

    def __init__(self, workers: int, chunk_bytes: int) -> None:
        self._workers = workers
        self._chunk_bytes = chunk_bytes

    def pieces(self, size: int, item_bytes: int) -> Sequence[Piece]:
        share_bytes = math.ceil(size / self._workers) * item_bytes
        lanes = max(1, math.ceil(share_bytes / self._chunk_bytes))
        everyone = tuple(range(self._workers))
        return chained(size, everyone, (), everyone, lanes)

    def learn(self, bytes_per_s: Mapping[int, float]) -> None:
        """It stays as it is."""


def rounds(
    updates: Sequence[Payload], wire_bytes: Callable[[Payload], int], chunk_bytes: int
) -> Rounds:
    """The whole operation, for an engine that does not carry out every message.

    Sparse shares grow while they are summed; shares are taken to be alike, as they are stripes.
    """
    workers = len(updates)
    if workers == 1:
        return Rounds((), 1)
    if updates[0].indices is None:
        share_bytes = wire_bytes(updates[0]) / workers
        lanes = max(1, math.ceil(share_bytes / chunk_bytes))
        return Rounds((share_bytes / lanes,) * (2 * (workers - 1)), lanes)
    *growing, whole = _share_bytes(updates, wire_bytes)
    return Rounds((*growing, *[whole] * (workers - 1)), 1)


def _share_bytes(updates: Sequence[Payload], wire_bytes: Callable[[Payload], int]) -> list[float]:
    """Mean bytes of a share once 1, 2, … n workers are in it, never more than when dense."""
    first, workers = updates[0], len(updates)
    assert first.indices is not None
    share = (first.indices // STRIPE) % workers == 0
    sample = Payload(first.size, first.indices[share], first.values[share])
    entry_bytes = wire_bytes(sample) / max(len(sample.values), 1)
    most = wire_bytes(dense(np.zeros(first.size, first.values.dtype))) / workers
    return [min(entry_bytes * count, most) for count in _share_entries(updates)]


def _share_entries(updates: Sequence[Payload]) -> list[float]:
    """Mean number of entries of a share that any of the first 1, 2, … n workers has."""
    workers = len(updates)
    parts = [_by_share(update, workers) for update in updates]
    touched = np.zeros((workers, updates[0].size // workers + 2 * STRIPE), np.bool_)
    counts = []
    for step in range(workers):
        for share in range(workers):
            touched[share, parts[(share + step) % workers][share]] = True
        counts.append(float(np.count_nonzero(touched)) / workers)
    return counts


def _by_share(update: Payload, workers: int) -> list[NDArray[np.int64]]:
    """Entries of each share, numbered within it."""
    assert update.indices is not None
    stripe, offset = np.divmod(update.indices.astype(np.int64), STRIPE)
    places = stripe // workers * STRIPE + offset
    return [places[stripe % workers == share] for share in range(workers)]


def build(context: PolicyContext) -> Ring:
    """How every worker sums."""
    return Ring(len(context.workers), context.payload_chunk_bytes)
