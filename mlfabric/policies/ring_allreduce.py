"""Bandwidth-optimal ring all-reduce over point-to-point messages ("RR-Sync").

The vector is cut into n shares. Share s travels the ring once to be summed, ending at worker
s - 1 (mod n), and once more to be known by all: 2(n - 1)/n of the vector crosses every link.
Dense vectors are also cut into lanes, each a ring of its own on messages of at most one chunk, so
that a worker passes one lane on while the next arrives. Sparse vectors are dealt to shares in
stripes, as their entries cluster, and stay sparse while that is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mlfabric.payload import Payload, dense, total
from mlfabric.policies.base import Message, MomentumOptions, Operations, PolicyContext, Rounds

PLACE: Literal["workers"] = "workers"
Options = MomentumOptions

STRIPE = 64
"""Neighboring entries that stay in one share of a sparse vector [ours]."""


class RingAllreduce:
    """One worker's side of one operation. A message's key is (lane, step), 0 <= step < 2(n-1)."""

    def __init__(self, worker: int, workers: int, chunk_bytes: int) -> None:
        self._worker = worker
        self._workers = workers
        self._chunk_bytes = chunk_bytes
        self._early: list[Message] = []
        self._shares: list[list[Payload]] = []
        self._received: list[int] = []
        self._sparse = False

    def start(self, update: Payload, now: float) -> list[Message]:
        """Cut this worker's update into shares and send the first of each lane on."""
        self._sparse = update.indices is not None
        self._shares = self._cut(update)
        self._received = [0] * len(self._shares)
        if self._workers == 1:
            return []
        messages = [self._message(lane, 0) for lane in range(len(self._shares))]
        early, self._early = self._early, []
        for message in early:
            messages += self.receive(message, now)
        return messages

    def receive(self, message: Message, now: float) -> list[Message]:
        """Take a share, summing it in the first round, and pass it on; in any order."""
        if not self._shares:
            self._early.append(message)
            return []
        (lane, step), payload = message.key, message.payload
        share = (self._worker - step - 1) % self._workers
        if step < self._workers - 1:
            payload = total([self._shares[lane][share], payload])
        self._shares[lane][share] = payload
        self._received[lane] += 1
        return [self._message(lane, step + 1)] if step + 1 < self._last else []

    def result(self) -> Payload | None:
        """The sum, once this worker has all shares of all lanes."""
        if not self._shares or any(count < self._last for count in self._received):
            return None
        if self._sparse:
            return total(self._shares[0])
        parts = [lane[share].values for share in range(self._workers) for lane in self._shares]
        return dense(np.concatenate(parts))

    @property
    def _last(self) -> int:
        return 2 * (self._workers - 1)

    def _message(self, lane: int, step: int) -> Message:
        share = (self._worker - step) % self._workers
        successor = (self._worker + 1) % self._workers
        return Message(self._worker, successor, (lane, step), self._shares[lane][share])

    def _cut(self, update: Payload) -> list[list[Payload]]:
        """Payloads by lane and share."""
        if update.indices is not None:
            share_of = (update.indices // STRIPE) % self._workers
            pick = [share_of == share for share in range(self._workers)]
            return [[Payload(update.size, update.indices[p], update.values[p]) for p in pick]]
        shares = np.array_split(update.values, self._workers)
        lanes = max(1, math.ceil(shares[0].nbytes / self._chunk_bytes))
        pieces = [np.array_split(share, lanes) for share in shares]
        return [[dense(pieces[s][lane]) for s in range(self._workers)] for lane in range(lanes)]


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


def build(context: PolicyContext, worker: int) -> Operations:
    """The side of worker 0 .. n - 1 of one operation after another."""
    return lambda: RingAllreduce(worker, len(context.workers), context.payload_chunk_bytes)
