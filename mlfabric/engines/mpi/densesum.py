"""Dense vectors summed over all workers straight from and into their memory, without headers.

Both ends of a message know what it is: its tag tells the piece and the way. So nothing is encoded,
and nothing copied but where sums are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlfabric.engines.mpi.transport import drain
from mlfabric.policies.base import Piece
from mlfabric.treesum import DOWN, UP, Side

Vector = NDArray[Any]
OnPart = Callable[[int, int, int], None]
"""Told (worker, piece, bytes) of each sum so far that has come."""

WINDOW = 24
"""Receives that are looked at in one go, the first expected ones at every turn, others by turns."""

_PIECES = 1 << 15
"""Tags of one operation; those of the next one, in which others may be already, differ."""


class DenseSum:
    """One operation under way; sums so far come into `inbox`, which lives on."""

    def __init__(
        self,
        comm: MPI.Comm,
        number: int,
        side: Side,
        values: Vector,
        inbox: Vector,
        on_part: OnPart,
    ) -> None:
        self._comm = comm
        self._first_tag = number % 2 * 2 * _PIECES
        self._side = side
        self._values = values
        self._on_part = on_part
        self.result = np.empty_like(values)
        self.sent_bytes = [0] * len(side.pieces[0].up)
        self._sends: list[MPI.Request] = []
        self._receives: list[MPI.Request] = []
        self._coming: list[tuple[int, int, int]] = []
        self._further = 0
        self._lacking = [len(place.adds) for place in side.places]
        self._sums: list[Vector | None] = [None] * len(side.pieces)
        self._parts: dict[tuple[int, int], Vector] = {}
        self._post_receives(inbox)
        for piece, lacking in enumerate(self._lacking):
            if not lacking:
                self._risen(piece, self._of(values, piece))

    def advance(self) -> bool:
        """Take what has come; whether anything has."""
        moved = self._test(0)
        if not moved and len(self._receives) > WINDOW:
            self._further += WINDOW
            if self._further >= len(self._receives):
                self._further = WINDOW
            moved = self._test(self._further)
        return moved

    def _test(self, begin: int) -> bool:
        done = MPI.Request.Testsome(self._receives[begin : begin + WINDOW]) or []
        took = [self._coming[begin + place] for place in done]
        for place in sorted(done, reverse=True):
            del self._receives[begin + place], self._coming[begin + place]
        for coming in took:
            self._take(*coming)
        return bool(took)

    @property
    def sending(self) -> bool:
        """Whether MPI may still have something to send."""
        return bool(self._sends) and not self._receives

    @property
    def complete(self) -> bool:
        """Whether the result is here, and nothing reads our memory any more."""
        return not self._receives and MPI.Request.Testall(self._sends)

    def abandon(self) -> None:
        """Forget what is under way."""
        for request in (*self._receives, *self._sends):
            request.Cancel()
            request.Free()
        self._receives, self._sends, self._coming = [], [], []

    def _post_receives(self, inbox: Vector) -> None:
        place = 0
        for src, number, way in self._side.receives:
            into = self._of(self.result, number)
            if way == UP:
                into = inbox[place : place + len(into)]
                place += len(into)
                self._parts[src, number] = into
            self._receives.append(self._comm.Irecv(into, src, self._tag(number, way)))
            self._coming.append((src, number, way))

    def _take(self, src: int, piece: int, way: int) -> None:
        if way == DOWN:
            self._spread(piece)
            return
        part = self._parts.pop((src, piece))
        self._on_part(src, piece, part.nbytes)
        before = self._sums[piece]
        own = self._of(self._values, piece) if before is None else before
        self._lacking[piece] -= 1
        last = not self._lacking[piece]
        to_result = last and self._side.places[piece].source is None
        into = self._of(self.result, piece) if to_result else part
        self._sums[piece] = np.add(own, part, out=into)
        if last:
            self._risen(piece, into)

    def _risen(self, piece: int, summed: Vector) -> None:
        """All of this worker's subtree is in the sum."""
        place = self._side.places[piece]
        if place.source is not None:
            self._send(place.parent, piece, UP, summed)
            return
        if not place.adds:
            np.copyto(self._of(self.result, piece), summed)
        self._spread(piece)

    def _spread(self, piece: int) -> None:
        for child in self._side.places[piece].spreads:
            self._send(child, piece, DOWN, self._of(self.result, piece))

    def _send(self, dst: int, piece: int, way: int, values: Vector) -> None:
        self._sends.append(self._comm.Isend(values, dst, self._tag(piece, way)))
        self.sent_bytes[dst] += values.nbytes

    def _tag(self, piece: int, way: int) -> int:
        return self._first_tag + 2 * piece + way

    def _of(self, vector: Vector, piece: int) -> Vector:
        begin, end, _, _ = self._side.pieces[piece]
        return vector[begin:end]


class DenseSums:
    """Sums one vector after another; to be polled at every turn of the rank's loop."""

    def __init__(self, comm: MPI.Intracomm, ranks: Sequence[int]) -> None:
        self._comm = comm.Create_group(comm.Get_group().Incl(ranks))
        self._inbox: Vector = np.empty(0, np.float32)
        self._current: DenseSum | None = None
        self._done: Callable[[Vector, Sequence[int]], None] | None = None

    @staticmethod
    def takes(pieces: Sequence[Piece]) -> bool:
        """Whether there are tags for so many pieces."""
        return len(pieces) <= _PIECES

    def start(
        self,
        number: int,
        side: Side,
        values: Vector,
        on_part: OnPart,
        done: Callable[[Vector, Sequence[int]], None],
    ) -> None:
        """Begin operation `number`; `values` must stay as they are until `done(sum, bytes sent to
        each worker)`."""
        self._done = done
        if self._inbox.size < side.entries_up or self._inbox.dtype != values.dtype:
            self._inbox = np.empty(side.entries_up, values.dtype)
        self._current = DenseSum(self._comm, number, side, values, self._inbox, on_part)

    def poll(self) -> bool:
        """Move what can move; whether anything did."""
        current = self._current
        if current is None:
            return False
        moved = current.advance()
        if current.complete:
            self._current = None
            assert self._done is not None
            self._done(current.result, current.sent_bytes)
            return True
        return moved

    @property
    def sending(self) -> bool:
        """Whether MPI may still have something to send."""
        return self._current is not None and self._current.sending

    def close(self) -> None:
        """Give up what is under way."""
        if self._current is not None:
            self._current.abandon()

    def drain(self) -> None:
        """Take in what others had sent for it; to be called when all have closed."""
        drain(self._comm)
