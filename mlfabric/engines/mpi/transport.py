"""Control messages and chunked streams between ranks, polled and never blocking.

A stream is announced by a control message, then its bytes come as chunks of at most `chunk_bytes`
on a tag of their own, straight from and into the caller's memory. A stream can be forwarded while
it arrives, and cut short. One of a single chunk travels within its announcement: a copy costs less
than a second message.
"""

from __future__ import annotations

import math
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlfabric.engines.mpi.failures import came_to_an_end, is_failure, is_over
from mlfabric.engines.mpi.pacing import Pacing, TokenBucket
from mlfabric.engines.mpi.wire import decode, encode
from mlfabric.errors import ProtocolError
from mlfabric.payload import Payload, from_wire

Bytes = NDArray[np.uint8]

CONTROL_TAG = 1
FIRST_STREAM_TAG = 2
STREAM_TAGS = 30_000
MAX_CONTROL_BYTES = 65_536
CONTROL_RECEIVES = 4
"""Receives of control messages that are posted at a time."""

GRANT_WINDOW = 4
"""Chunks of a stream that may be granted and not here: enough for the way there and back."""

WINDOW = 4
"""Chunks of a stream handed to MPI at a time: enough to keep the link busy, few to take back."""

ENDING_CHUNKS = 1
"""A stream is ending when at most this many chunks are still to come."""

NEWS_SHARE = 0.25

PARTING_S = 3.0
LAST_WORDS_S = 0.5
"""Once ranks have failed: the longest wait for what others say last, and how long our own may
take to get there."""

_HEAD = struct.Struct(">I")
"""Length of a control message; what follows the message is attached data."""


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
            _cancel(self._requests.pop())

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
            _cancel(self._requests.pop())


class Transport:
    """One rank's end of everything; used by one thread.

    `on_message(src, message)` gets control messages, `on_stream(stream)` the announcement of a
    stream, `on_chunk(stream)` every arrival of a chunk, the last included, and `on_cut(stream)` the
    end of a stream that its sender has cut short. With `pacing`, streams keep to its rates. With
    `tolerant` it goes on without ranks that fail: each is listened to by itself, as MPI lets nobody
    listen to all while there are failures that it does not hold for acknowledged.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        chunk_bytes: int,
        pacing: Pacing | None = None,
        *,
        tolerant: bool = False,
    ) -> None:
        self.comm = comm
        self.rank = comm.Get_rank()
        self.size = comm.Get_size()
        self.chunk_bytes = chunk_bytes
        self.on_message: Callable[[int, Any], None] | None = None
        self.on_stream: Callable[[Incoming], None] | None = None
        self.on_chunk: Callable[[Incoming], None] | None = None
        self.on_cut: Callable[[Incoming], None] | None = None
        self._pacing = pacing
        self._byes: set[int] = set()
        self._gone: set[int] = set()
        self._limbo: list[MPI.Request] = []
        self._streams = 0
        self._outgoing: list[Outgoing] = []
        self._incoming: list[IncomingChunks] = []
        self._control_sends: deque[tuple[int, MPI.Request]] = deque()
        sources = range(self.size) if tolerant else (MPI.ANY_SOURCE,)
        largest = _HEAD.size + MAX_CONTROL_BYTES + chunk_bytes
        self._control = {
            source: deque(
                self._listen(source, np.empty(largest, np.uint8)) for _ in range(CONTROL_RECEIVES)
            )
            for source in sources
        }

    @property
    def busy(self) -> bool:
        """Whether a stream is under way."""
        return bool(self._outgoing or self._incoming)

    @property
    def sending(self) -> bool:
        """Whether MPI still has something to send, or a link shaped here is to be seen to: nothing
        tells when it can go on."""
        paced = self._pacing is not None and bool(self._incoming)
        return paced or bool(self._outgoing or self._control_sends)

    def send(self, dst: int, message: Any) -> None:
        """Send a control message; ProtocolError when it is longer than MAX_CONTROL_BYTES."""
        self._send(dst, message, b"")

    def _send(self, dst: int, message: Any, attached: memoryview | bytes) -> None:
        head = encode(message)
        if len(head) > MAX_CONTROL_BYTES:
            raise ProtocolError(
                f"control message of {len(head)} bytes, at most {MAX_CONTROL_BYTES}"
            )
        if dst in self._gone:
            return
        data = b"".join((_HEAD.pack(len(head)), head, attached))
        sent = isend(self.comm, data, dst, CONTROL_TAG)
        if sent is not None:
            self._control_sends.append((dst, sent))

    def stream(
        self, dst: int, header: dict[str, Any], data: Bytes, available: int | None = None
    ) -> Outgoing:
        """Start to send `data`; the receiver's stream carries `header`."""
        usable = len(data) if available is None else available
        tag = FIRST_STREAM_TAG + self._streams % STREAM_TAGS
        egress = None if self._pacing is None else self._pacing.egress
        outgoing = Outgoing(dst, tag, data, self.chunk_bytes, usable, egress)
        if egress is None and usable == len(data) <= self.chunk_bytes:
            self._send(dst, ("whole", header), data.data)
            outgoing.cut()
            return outgoing
        if dst in self._gone:
            outgoing.cut()
            return outgoing
        self._streams += 1
        self.send(dst, ("stream", tag, len(data), header))
        self._outgoing.append(outgoing)
        outgoing.advance(self.comm)
        return outgoing

    def cut(self, outgoing: Outgoing) -> None:
        """Stop a stream that is being sent, and tell its receiver how much of it will come."""
        if outgoing in self._outgoing:
            outgoing.cut()
            self.send(outgoing.dst, ("cut", outgoing.tag, outgoing.chunks_sent))

    def poll(self) -> bool:
        """Move everything that can move; True when anything did."""
        moved = self._poll_control()
        moved = self._poll_incoming() or moved
        if self._pacing is not None:
            self._grant(self._pacing.ingress)
            self._outgoing = self._outgoing[1:] + self._outgoing[:1]  # each is first in turn
        for outgoing in self._outgoing:
            moved = outgoing.advance(self.comm) or moved
        self._outgoing = [outgoing for outgoing in self._outgoing if not outgoing.done]
        return moved

    def _grant(self, ingress: TokenBucket) -> None:
        """Let those who send to this host send a chunk, in turn, while its link has room."""
        waiting = [stream for stream in self._incoming if stream.wants_grant()]
        while waiting and ingress.has_room():
            stream = waiting.pop(0)
            ingress.take(stream.grant())
            self.send(stream.src, ("grant", stream.tag))
            self._incoming.remove(stream)
            self._incoming.append(stream)
            if stream.wants_grant():
                waiting.append(stream)

    def forget(self, rank: int) -> None:
        """A rank is gone: nothing is sent there or waited for from there any more."""
        self._gone.add(rank)
        for outgoing in [outgoing for outgoing in self._outgoing if outgoing.dst == rank]:
            self._limbo += outgoing.abandon()
            self._outgoing.remove(outgoing)
        for incoming in [incoming for incoming in self._incoming if incoming.src == rank]:
            incoming.abandon()
            self._incoming.remove(incoming)
        for _, listening in self._control.pop(rank, ()):
            _cancel(listening)
        self._limbo += [request for dst, request in self._control_sends if dst == rank]
        self._control_sends = deque(pair for pair in self._control_sends if pair[0] != rank)

    def cut_all(self) -> None:
        """Stop every stream that is being sent."""
        for outgoing in list(self._outgoing):
            self.cut(outgoing)

    def close(self) -> None:
        """Finish sending, wait until all ranks have, and take in what nobody waits for any more.

        Every rank must close; MPI may be finalized afterwards: some complain of a message left.
        Where ranks have failed nobody is waited for long, and MPI is not to be finalized.
        """
        until = time.monotonic() + PARTING_S if self._gone else math.inf
        self.on_message = self.on_stream = self.on_chunk = self.on_cut = None
        self._poll_until(lambda: not self._outgoing and not self._control_sends, until)
        for rank in range(self.size):  # after all else that this rank has sent there
            self.send(rank, ("bye",))
        self._poll_until(lambda: len(self._byes | self._gone) == self.size, until)
        self._poll_until(lambda: not self._control_sends, until)
        if self._gone:  # what is said last must get through before the connections are closed
            self._poll_until(lambda: False, time.monotonic() + LAST_WORDS_S)
            return
        for incoming in self._incoming:
            incoming.abandon()
        for posted in self._control.values():
            for _, listening in posted:
                _cancel(listening)
        drain(self.comm)

    def _poll_until(self, finished: Callable[[], bool], until: float) -> None:
        while not finished() and time.monotonic() < until:
            if not self.poll():
                time.sleep(0.001)

    def _listen(self, source: int, buffer: Bytes) -> tuple[Bytes, MPI.Request]:
        return buffer, self.comm.Irecv([buffer, MPI.BYTE], source, CONTROL_TAG)

    def _poll_control(self) -> bool:
        while self._control_sends and is_over(self._control_sends[0][1]):
            self._control_sends.popleft()
        status = MPI.Status()
        moved = False
        for source, posted in self._control.items():
            while came_to_an_end(posted[0][1], status):
                moved = True
                buffer, _ = posted.popleft()
                src, (length,) = status.Get_source(), _HEAD.unpack_from(buffer.data)
                message = decode(buffer.data[_HEAD.size : _HEAD.size + length])
                attached = buffer[_HEAD.size + length : status.Get_count()].copy()
                posted.append(self._listen(source, buffer))
                self._receive(src, message, attached)
        return moved

    def _receive(self, src: int, message: Any, attached: Bytes) -> None:
        match message:
            case ("whole", header):
                incoming = Incoming(src, header, attached)
                if self.on_stream:
                    self.on_stream(incoming)
                if self.on_chunk:
                    self.on_chunk(incoming)
            case ("stream", tag, n_bytes, header):
                incoming = IncomingChunks(self.comm, src, tag, header, n_bytes, self.chunk_bytes)
                self._incoming.append(incoming)
                if self.on_stream:
                    self.on_stream(incoming)
            case ("bye",):
                self._byes.add(src)
            case ("grant", tag):
                for outgoing in self._outgoing:
                    if (outgoing.dst, outgoing.tag) == (src, tag):
                        outgoing.granted += 1
            case ("cut", tag, chunks_sent):
                for coming in self._incoming:
                    if (coming.src, coming.tag) == (src, tag):
                        coming.cut(chunks_sent)
            case _ if self.on_message:
                self.on_message(src, message)

    def _poll_incoming(self) -> bool:
        moved = False
        for incoming in list(self._incoming):
            while incoming.advance(time.monotonic()):
                moved = True
                if self.on_chunk and not incoming.cut_short:
                    self.on_chunk(incoming)
            if incoming.cut_short and incoming.done and self.on_cut:
                self.on_cut(incoming)
        self._incoming = [i for i in self._incoming if not i.done]
        return moved


def chunk_count(n_bytes: int, chunk_bytes: int) -> int:
    """Chunks of a stream; an empty one still has one, so that its end is seen."""
    return max(1, math.ceil(n_bytes / chunk_bytes))


def drain(comm: MPI.Comm) -> None:
    """Take in every message that has come and that nobody waits for."""
    status = MPI.Status()
    while comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
        forgotten = np.empty(status.Get_count(MPI.BYTE), np.uint8)
        comm.Recv([forgotten, MPI.BYTE], status.Get_source(), status.Get_tag())


def isend(comm: MPI.Comm, data: Any, dst: int, tag: int) -> MPI.Request | None:
    """Start to send; None where MPI knows that the receiver has failed: it comes to nothing."""
    try:
        return comm.Isend([data, MPI.BYTE], dst, tag)
    except MPI.Exception as error:
        if not is_failure(error):
            raise
        return None


def _cancel(request: MPI.Request) -> None:
    if request == MPI.REQUEST_NULL:
        return
    try:
        request.Cancel()
        request.Wait()
    except MPI.Exception as error:
        if not is_failure(error):
            raise
