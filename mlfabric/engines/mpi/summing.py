"""Sums that are passed on while what they are made of still comes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlfabric.engines.mpi.streams import Bytes, Incoming, Outgoing
from mlfabric.engines.roles.node import Outgoing as OutgoingStream
from mlfabric.payload import Payload, from_wire, total


def are_dense(streams: Sequence[Incoming]) -> bool:
    """Whether each stream brings every entry, so that its chunks are parts of the vector."""
    return all(stream.header["payload"]["nnz"] is None for stream in streams)


class RunningSum:
    """The sum of dense streams, and of what is here already, as far as all of them have come.

    `description` tells what the bytes `data` are; `ready_bytes` of them are final.
    """

    def __init__(self, streams: Sequence[Incoming], known: Sequence[Payload]) -> None:
        self.description: dict[str, Any] = streams[0].header["payload"]
        self._sums = np.zeros(self.description["size"], self.description["dtype"])
        self.data: Bytes = self._sums.view(np.uint8)
        for payload in known:
            payload.add_to(self._sums)
        self._streams = list(streams)
        self._taken = [0] * len(streams)
        self.advance()

    @property
    def ready_bytes(self) -> int:
        return min(self._taken) * self._sums.itemsize

    def advance(self) -> None:
        """Add what has newly come in; entries that came in part wait for their rest."""
        for place, stream in enumerate(self._streams):
            begin, end = self._taken[place], stream.received_bytes // self._sums.itemsize
            if end > begin:
                self._sums[begin:end] += stream.data.view(self._sums.dtype)[begin:end]
                self._taken[place] = end

    def feeds(self, outgoing: Outgoing) -> None:
        """Let `outgoing` send as much of `data` as is final, from now on."""

        def pass_on() -> None:
            self.advance()
            outgoing.available = self.ready_bytes

        for stream in self._streams:
            stream.on_progress.append(pass_on)


class FlowingSum:
    """A running sum that is being sent."""

    def __init__(self, running: RunningSum, outgoing: Outgoing) -> None:
        self._running = running
        self.outgoing = outgoing

    @property
    def done(self) -> bool:
        return self.outgoing.done

    def payload(self) -> Payload:
        """The sum, once all of it is there."""
        return from_wire(self._running.description, self._running.data)


class LateSum:
    """The sum of streams whose chunks are no parts of a vector (sparse ones): once all are here.

    `begin(sum)` is called then, unless the sum has been cut before.
    """

    def __init__(
        self,
        streams: Sequence[Incoming],
        known: Sequence[Payload],
        begin: Callable[[Payload], OutgoingStream],
    ) -> None:
        self._streams = list(streams)
        self._known = list(known)
        self._begin = begin
        self.outgoing: OutgoingStream | None = None
        self._sum: Payload | None = None
        self.is_cut = False
        for stream in streams:
            stream.on_progress.append(self._look)

    @property
    def done(self) -> bool:
        return self.outgoing is not None and self.outgoing.done

    def payload(self) -> Payload:
        """The sum, once all of it is there."""
        assert self._sum is not None
        return self._sum

    def _look(self) -> None:
        if self.is_cut or self.outgoing is not None:
            return
        if all(stream.done for stream in self._streams):
            arrived = [stream.payload() for stream in self._streams]
            self._sum = total([*self._known, *arrived])
            self.outgoing = self._begin(self._sum)
