"""MLfabric-S as a collective: shares of the vector, each with a root and a tree of its own.

Every worker sends each share's part to the worker that sums it, the root, and gets the sum from
there, chunk by chunk, so that the first sums travel while the last parts still do. Shares are
sized by the rates that roots have seen in the operation before (`parts.shares`): on equal links
the load is a ring's, without a ring's chain of steps; a slow link carries its own part and the
result, once each, and holds nothing else up. Trees are stars: with one level nothing waits for a
third host, and each link carries the same bytes as in deeper ones.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np

from mlfabric.payload import Payload, dense, total
from mlfabric.policies.base import Message, MomentumOptions, Operations, PolicyContext
from mlfabric.policies.parts.shares import Floats, boundaries, median_rates, shares

PLACE: Literal["workers"] = "workers"
Options = MomentumOptions

PART, SUM = 0, 1
STRIPE = 64
"""Neighboring entries that stay in one share of a sparse vector [ours]."""

ROUNDS = 16
"""Chunks of a share where links differ, so that little is left to do once the slow link has sent
its last one; `EVEN_ROUNDS` where they are alike and each message costs time [ours]."""
EVEN_ROUNDS = 3

MIN_CHUNK_BYTES = 8_192


class Exchange:
    """One worker's side of one operation. A message's key is (PART or SUM, share, chunk)."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._me, self._workers = sharing.worker, sharing.workers
        self._early: list[Message] = []
        self._cuts: _Cuts | None = None
        self._summed: list[list[Payload]] = []
        self._sums: dict[tuple[int, int], Payload] = {}
        self._seen: list[_Seen] = [_Seen() for _ in range(self._workers)]
        self._told: list[tuple[float, ...]] = []

    def start(self, update: Payload, now: float) -> list[Message]:
        """Send all parts, chunk by chunk, to each root in turn, the next worker's first."""
        self._cuts = cuts = _Cuts(update, self._sharing, self._workers)
        self._summed = [[part] for part in cuts.parts[self._me]]
        messages = []
        for chunk in range(max(map(len, cuts.parts))):
            for step in range(1, self._workers):
                root = (self._me + step) % self._workers
                if chunk < len(cuts.parts[root]):
                    key = (PART, root, chunk)
                    messages.append(Message(self._me, root, key, cuts.parts[root][chunk]))
        if self._workers == 1:
            self._sums = {(0, chunk): part for chunk, (part,) in enumerate(self._summed)}
        early, self._early = self._early, []
        for message in early:
            messages += self._take(message)
        return messages

    def receive(self, message: Message, now: float) -> list[Message]:
        """Take a part, and send its sum to all once it is whole; or take a sum."""
        if message.key[0] == PART:
            self._seen[message.src].chunk(len(message.payload.values), now)
        if self._cuts is None:
            self._early.append(message)
            return []
        return self._take(message)

    def _take(self, message: Message) -> list[Message]:
        kind, share, chunk = message.key
        if kind == SUM:
            self._sums[share, chunk] = message.payload
            if message.told:
                self._told.append(message.told)
            return []
        members = self._summed[chunk]
        members.append(message.payload)
        return self._spread(chunk) if len(members) == self._workers else []

    def result(self) -> Payload | None:
        """The sum, once all chunks of all shares are here."""
        cuts = self._cuts
        if cuts is None or len(self._sums) < cuts.chunks:
            return None
        self._sharing.learn(self._told)
        parts = [self._sums[s, c] for s, share in enumerate(cuts.parts) for c in range(len(share))]
        if cuts.sparse:
            return total(parts)
        return dense(np.concatenate([part.values for part in parts]))

    def _spread(self, chunk: int) -> list[Message]:
        """A chunk of this worker's share is summed; with the last one goes what was seen."""
        summed = total(self._summed[chunk])
        self._sums[self._me, chunk] = summed
        told: tuple[float, ...] = ()
        if chunk == len(self._summed) - 1:
            told = tuple(self._rate(src) for src in range(self._workers))
            self._told.append(told)
        others = [(self._me + step) % self._workers for step in range(1, self._workers)]
        key = (SUM, self._me, chunk)
        return [Message(self._me, other, key, summed, told) for other in others]

    def _rate(self, src: int) -> float:
        """Entries/s that a worker sent to all roots, judged by the part that came here."""
        assert self._cuts is not None
        portion = self._cuts.portions[self._me]
        elsewhere = 1.0 - self._cuts.portions[src]
        return float(self._seen[src].entries_per_s() * elsewhere / portion)


class _Seen:
    """How fast the parts of one worker came in: from the first chunk to the last."""

    def __init__(self) -> None:
        self._first_s: float | None = None
        self._last_s = 0.0
        self._entries = 0

    def chunk(self, entries: int, now: float) -> None:
        if self._first_s is None:
            self._first_s = now
        else:
            self._entries += entries
        self._last_s = now

    def entries_per_s(self) -> float:
        """NaN where one chunk is all that came."""
        if self._first_s is None or self._last_s <= self._first_s:
            return math.nan
        return self._entries / (self._last_s - self._first_s)


class _Cuts:
    """An update cut into shares, and those into chunks."""

    def __init__(self, update: Payload, sharing: Sharing, workers: int) -> None:
        self.sparse = update.indices is not None
        self.portions = sharing.portions
        if update.indices is None:
            self.parts = _dense_parts(update, sharing)
        else:
            roots = np.flatnonzero(self.portions)
            root_of = roots[(update.indices // STRIPE) % len(roots)]
            picks = [root_of == share for share in range(workers)]
            self.parts = [
                [Payload(update.size, update.indices[p], update.values[p])] if root else []
                for p, root in zip(picks, self.portions, strict=True)
            ]
        self.chunks = sum(map(len, self.parts))


def _dense_parts(update: Payload, sharing: Sharing) -> list[list[Payload]]:
    values, size = update.values, update.size
    places = boundaries(sharing.portions, size)
    largest = max(b - a for a, b in itertools.pairwise(places)) * values.itemsize
    wanted = largest / (EVEN_ROUNDS if sharing.even else ROUNDS)
    chunk_bytes = min(max(wanted, MIN_CHUNK_BYTES), sharing.chunk_bytes)
    found = []
    for begin, end in itertools.pairwise(places):
        count = math.ceil((end - begin) * values.itemsize / chunk_bytes)
        found.append([dense(part) for part in np.array_split(values[begin:end], count or 1)])
        if begin == end:
            found[-1] = []
    if not size:
        found[0] = [update]
    return found


class Sharing:
    """What one worker knows from one operation to the next; the same as all others know."""

    def __init__(self, worker: int, workers: int, chunk_bytes: int) -> None:
        self.worker = worker
        self.workers = workers
        self.chunk_bytes = chunk_bytes
        self._rates: Floats = np.ones(workers)
        self.portions: Floats = shares(self._rates)

    @property
    def even(self) -> bool:
        """Whether all have the same share."""
        return bool(np.ptp(self.portions) < 1e-9)

    def learn(self, told: list[tuple[float, ...]]) -> None:
        """Take in what roots have seen, and size the next operation's shares by it."""
        self._rates = median_rates(told, self._rates)
        self.portions = shares(self._rates)

    def operation(self) -> Exchange:
        """This worker's side of the next operation."""
        return Exchange(self)


def build(context: PolicyContext, worker: int) -> Operations:
    """The side of worker 0 .. n - 1 of one operation after another."""
    return Sharing(worker, len(context.workers), context.payload_chunk_bytes).operation
