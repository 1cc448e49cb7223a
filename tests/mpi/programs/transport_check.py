"""Every rank streams to every other, a chain forwards while receiving, a stream is cut short."""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

from mlfabric.engines.mpi.transport import Transport

CHUNK = 4096


def pattern(src: int, dst: int, size: int) -> np.ndarray:
    """Bytes that only this pair can have sent."""
    return ((np.arange(size) * 7 + 31 * src + 17 * dst) % 251).astype(np.uint8)


def until(transport: Transport, finished) -> None:
    deadline = time.monotonic() + 30
    while not finished():
        assert time.monotonic() < deadline, f"rank {transport.rank} waits for ever"
        if not transport.poll():
            time.sleep(0.001)


def everyone_to_everyone(transport: Transport, size: int) -> None:
    got = {}

    def on_chunk(stream):
        if stream.done:
            got[stream.src] = stream

    transport.on_chunk = on_chunk
    others = [r for r in range(transport.size) if r != transport.rank]
    for dst in others:
        transport.stream(dst, {"from": transport.rank}, pattern(transport.rank, dst, size))
    until(transport, lambda: len(got) == len(others) and not transport.busy)
    for src, stream in got.items():
        assert stream.header == {"from": src}
        np.testing.assert_array_equal(stream.data, pattern(src, transport.rank, size))


def chain(transport: Transport, size: int) -> None:
    """0 -> 1 -> 2 ...: every rank passes chunks on as they come."""
    got, forward = [], []

    def on_stream(stream):
        if transport.rank + 1 < transport.size:
            forward.append(transport.stream(transport.rank + 1, {}, stream.data, 0))

    def on_chunk(stream):
        for outgoing in forward:
            outgoing.available = stream.received_bytes
        if stream.done:
            got.append(stream)

    transport.on_stream, transport.on_chunk = on_stream, on_chunk
    if transport.rank == 0:
        transport.stream(1, {}, pattern(0, 0, size))
    until(transport, lambda: (transport.rank == 0 or got) and not transport.busy)
    if transport.rank:
        np.testing.assert_array_equal(got[0].data, pattern(0, 0, size))


def cut(transport: Transport) -> None:
    """Rank 0 stops a stream after what it had handed over; rank 1 sees no end of it."""
    ends, words = [], []
    transport.on_stream = None
    transport.on_chunk = lambda stream: ends.append(stream) if stream.done else None
    transport.on_message = lambda src, message: words.append(message)
    if transport.rank == 0:
        outgoing = transport.stream(1, {}, pattern(0, 1, 50 * CHUNK))
        assert outgoing.chunks_sent < 50
        transport.cut(outgoing)
        transport.send(1, "after")
    if transport.rank == 1:
        until(transport, lambda: words)
    until(transport, lambda: not transport.busy)
    assert not ends


def main() -> None:
    transport = Transport(MPI.COMM_WORLD, CHUNK)
    for size in (0, 1, CHUNK, 10 * CHUNK + 13):
        everyone_to_everyone(transport, size)
        transport.comm.Barrier()
    chain(transport, 20 * CHUNK + 5)
    transport.comm.Barrier()
    cut(transport)
    transport.comm.Barrier()
    transport.close()
    if transport.rank == 0:
        print("all right", file=sys.stdout)


if __name__ == "__main__":
    main()
