"""Streams of chunks: one being sent, one being received; polled and never blocking."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlfabric.engines.mpi.failures import came_to_an_end, cancel, is_over, isend
from mlfabric.engines.mpi.pacing import TokenBucket
from mlfabric.payload import Payload, from_wire

Bytes = NDArray[np.uint8]

GRANT_WINDOW = 4
"""Chunks of a stream that may be granted and not here: enough for the way there and back."""

WINDOW = 4
"""Chunks of a stream handed to MPI at a time: enough to keep the link busy, few to take back."""

ENDING_CHUNKS = 1
"""A stream is ending when at most this many chunks are still to come."""

NEWS_SHARE = 0.25


class Outgoing:
    """A stream being sent; `available` bytes of `data` may go (all, unless it is forwarded).

    On links shaped here, only as many chunks as have been granted, each when `egress` has room.
    """

    def __init__(
        self,
        dst: int,
        tag: int,
        data: Bytes,
        chunk_bytes: int,
        available: int,
        egress: TokenBucket | None,
    ) -> None:
        self.dst = dst
        self.tag = tag
        self.available = available
        self._data = data
        self._chunk_bytes = chunk_bytes
        self._chunks = chunk_count(len(data), chunk_bytes)
        self._egress = egress
        self.granted = 0
        self._sent = 0
        self._pending: deque[MPI.Request] = deque()

    @property
    def done(self) -> bool:
        return self._sent == self._chunks and not self._pending

    @property
    def chunks_sent(self) -> int:
        return self._sent

    def cut(self) -> None:
        """Send nothing more."""
        self._chunks = self._sent

    def abandon(self) -> list[MPI.Request]:
        """Its receiver is gone; returns what MPI still holds, to be kept and not to be asked."""
        self.cut()
        left, self._pending = list(self._pending), deque()
        return left

    def advance(self, comm: MPI.Comm) -> bool:
        """Hand over what may go; True when anything moved."""
        moved = False
        while self._pending and is_over(self._pending[0]):
            self._pending.popleft()
            moved = True
        while self._sent < self._chunks and len(self._pending) < WINDOW:
            begin = self._sent * self._chunk_bytes
            end = min(begin + self._chunk_bytes, len(self._data))
            if end > self.available:
                break
            if self._egress is not None:
                if self._sent >= self.granted or not self._egress.has_room():
                    break
                self._egress.take(end - begin)
            sent = isend(comm, self._data[begin:end], self.dst, self.tag)
            self._pending += [] if sent is None else [sent]
            self._sent += 1
            moved = True
        return moved


class Incoming:
    """A stream that comes into `data`, its chunks in order; here, one that is all there.

    `on_progress` are called after every chunk.
    """

    def __init__(self, src: int, header: dict[str, Any], data: Bytes) -> None:
        self.src = src
        self.header = header
        self.data = data
        self.received_bytes = len(data)
        self.chunks_left = 0
        self.cut_short = False
        self.bytes_per_s: float | None = None
        self.on_progress: list[Callable[[], None]] = []
        self._reported_bytes_per_s: float | None = None

    @property
    def done(self) -> bool:
        return self.chunks_left == 0

    def payload(self) -> Payload:
        """What a complete stream has brought; shares the memory of `data` where it is dense."""
        return from_wire(self.header["payload"], self.data)

    @property
    def ending(self) -> bool:
        """Whether the last chunk but `ENDING_CHUNKS` has just come."""
        return self.chunks_left == ENDING_CHUNKS

    def rate_is_news(self) -> bool:
        """Whether the rate is the first, or differs by `NEWS_SHARE` from the last news."""
        seen, old = self.bytes_per_s, self._reported_bytes_per_s
        if seen is None or (old is not None and abs(seen - old) < NEWS_SHARE * old):
            return False
        self._reported_bytes_per_s = seen
        return True


class IncomingChunks(Incoming):
    """A stream whose chunks still come, each straight to its place in `data`."""

    def __init__(
        self, comm: MPI.Comm, src: int, tag: int, header: dict[str, Any], n_bytes: int, chunk: int
    ) -> None:
        super().__init__(src, header, np.empty(n_bytes, np.uint8))
        self.tag = tag
        self.received_bytes = 0
        self.chunks_left = chunk_count(n_bytes, chunk)
        self._first_arrival: float | None = None
        self._chunk_bytes = chunk
        self._granted = 0
        self._first_bytes = 0
        self._taken = 0
        self._requests = deque(
            comm.Irecv([self.data[begin : begin + chunk], MPI.BYTE], src, tag)
            for begin in range(0, max(n_bytes, 1), chunk)
        )

    def wants_grant(self) -> bool:
        """Whether it may be granted a chunk: not too many at once, as senders may not use them."""
        outstanding = self._granted - self._taken
        return outstanding < min(GRANT_WINDOW, self.chunks_left) and not self.cut_short

    def grant(self) -> int:
        """Count one more chunk as granted; returns its bytes."""
        begin = self._granted * self._chunk_bytes
        self._granted += 1
        return min(self._chunk_bytes, len(self.data) - begin)

    def cut(self, chunks_sent: int) -> None:
        """Only `chunks_sent` chunks ever come; forget the rest."""
        self.cut_short = True
        self.chunks_left = chunks_sent - self._taken
        while len(self._requests) > self.chunks_left:
            cancel(self._requests.pop())

    def advance(self, now: float) -> bool:
        """Take one chunk if it is there."""
        if not self._requests or not came_to_an_end(self._requests[0]):
            return False
        self._requests.popleft()
        self._taken += 1
        self.chunks_left -= 1
        self.received_bytes = min(self.received_bytes + self._chunk_bytes, len(self.data))
        if self._first_arrival is None:
            self._first_arrival, self._first_bytes = now, self.received_bytes
        elif self.chunks_left >= ENDING_CHUNKS and now > self._first_arrival:
            moved = self.received_bytes - self._first_bytes
            self.bytes_per_s = moved / (now - self._first_arrival)
        return True

    def abandon(self) -> None:
        """Cancel every receive that is still posted."""
        while self._requests:
            cancel(self._requests.pop())


def chunk_count(n_bytes: int, chunk_bytes: int) -> int:
    """Chunks of a stream; an empty one still has one, so that its end is seen."""
    return max(1, math.ceil(n_bytes / chunk_bytes))
