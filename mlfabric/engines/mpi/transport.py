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

from mlfabric.engines.mpi.failures import came_to_an_end, cancel, is_over, isend
from mlfabric.engines.mpi.pacing import Pacing, TokenBucket
from mlfabric.engines.mpi.streams import Bytes, Incoming, IncomingChunks, Outgoing
from mlfabric.engines.mpi.wire import decode, encode
from mlfabric.errors import ProtocolError

CONTROL_TAG = 1
FIRST_STREAM_TAG = 2
STREAM_TAGS = 30_000
MAX_CONTROL_BYTES = 65_536
CONTROL_RECEIVES = 4
"""Receives of control messages that are posted at a time."""

PARTING_S = 3.0
LAST_WORDS_S = 0.5
"""Once ranks have failed: the longest wait for what others say last, and how long our own may
take to get there."""

_HEAD = struct.Struct(">I")
"""Length of a control message; what follows the message is attached data."""


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
            cancel(listening)
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
                cancel(listening)
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


def drain(comm: MPI.Comm) -> None:
    """Take in every message that has come and that nobody waits for."""
    status = MPI.Status()
    while comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
        forgotten = np.empty(status.Get_count(MPI.BYTE), np.uint8)
        comm.Recv([forgotten, MPI.BYTE], status.Get_source(), status.Get_tag())
