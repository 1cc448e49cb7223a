"""What every rank has: a transport, a clock, records, and a loop that naps when nothing moves."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpi4py import MPI

from mlfabric.engines.mpi.plan import SCHEDULER_RANK, RankPlan
from mlfabric.engines.mpi.records import Records
from mlfabric.engines.mpi.transport import Incoming, Transport
from mlfabric.errors import ProtocolError
from mlfabric.events import TransferDone, TransferEnding, TransferProgress

NAPS = ((20, 0.001), (100, 0.004), (None, 0.01))
"""Naps of a rank without streams: up to so many without news, so many seconds each."""

BUSY_NAP_S = 0.001

HEARTBEAT_S = 1.0

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Node:
    """One rank. Handlers are called with (source rank, message body); a message is (kind, body)."""

    def __init__(self, comm: MPI.Comm, plan: RankPlan) -> None:
        self.plan = plan
        self.transport = Transport(comm, plan.context.chunk_bytes)
        self.rank = self.transport.rank
        self.host = plan.hosts[self.rank]
        self.records = Records(plan.run_dir, self.rank)
        self.wake = threading.Event()
        self.waiting_for = "the end of the run"
        self.counts: dict[str, int] = {}
        self.activity = 0
        self.asked_s = 0.0
        self.stopping = False
        self.may_go = False
        self.coordinator_rank: int | None = None
        self.plans_transfers = False
        self._handlers: dict[str, Callable[[int, Any], None]] = {}
        self._tasks: list[Callable[[], bool]] = []
        self._inbox: deque[tuple[int, Any]] = deque()
        self._zero: float | None = None
        self._next_beat = 0.0
        self.transport.on_cut = self.record_transfer
        self.transport.on_message = lambda src, message: self._inbox.append((src, message))
        self.on("begin", self._begin)
        self.on("stop", self._stop)
        self.on("go", self._go)

    @classmethod
    def of_world(cls, plan: RankPlan) -> Node:
        """This process as a rank among all that were started with it."""
        return cls(MPI.COMM_WORLD, plan)

    # -- wiring ------------------------------------------------------------------------------

    def on(self, kind: str, handler: Callable[[int, Any], None]) -> None:
        """Call `handler` for messages of this kind."""
        self._handlers[kind] = handler

    def every_turn(self, task: Callable[[], bool]) -> None:
        """Call `task` at every turn of the loop; it tells whether it did anything."""
        self._tasks.append(task)

    def send(self, rank: int, kind: str, body: Any = None) -> None:
        """Send to another rank, or to this one; order is kept for each receiver."""
        if rank == self.rank:
            self._inbox.append((rank, (kind, body)))
        else:
            self.transport.send(rank, (kind, body))

    def send_all(self, kind: str, body: Any = None) -> None:
        """Send to every rank, this one included."""
        for rank in range(self.transport.size):
            self.send(rank, kind, body)

    def report(self, event: Any) -> None:
        """Tell the coordinator."""
        if self.coordinator_rank is not None and not self.stopping:
            self.send(self.coordinator_rank, "event", event)

    def report_arrival(self, stream: Incoming, transfer: str) -> None:
        """Tell the coordinator what this chunk says of the transfer: its rate, or its end."""
        if stream.done:
            moved = len(stream.data)
            self.report(TransferDone(transfer, moved, stream.bytes_per_s))
        elif stream.ending:
            self.report(TransferEnding(transfer))
        elif self.plans_transfers and stream.rate_is_news():
            assert stream.bytes_per_s is not None
            self.report(TransferProgress(transfer, stream.received_bytes, stream.bytes_per_s))

    def record_transfer(self, stream: Incoming) -> None:
        """One row a transfer, complete or cut short, written by its receiver."""
        header = stream.header
        requested = self.asked_s if header["kind"] == "model" else header["requested_s"]
        self.records.add(
            "transfer",
            kind=header["kind"],
            updates=list(header["updates"]),
            src=self.plan.hosts[stream.src],
            dst=header["final"],
            next_hop=self.host,
            bytes=stream.received_bytes,
            complete=not stream.cut_short,
            requested_s=min(requested, header["sent_s"]),
            started_s=header["sent_s"],
            ended_s=self.now(),
        )

    # -- clock -------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        return self._zero is not None

    def now(self) -> float:
        """Seconds since the run's clock started; 0 before."""
        return self.since_zero(time.monotonic())

    def since_zero(self, monotonic_s: float) -> float:
        return 0.0 if self._zero is None else monotonic_s - self._zero

    def _begin(self, src: int, body: Any) -> None:
        """Ranks of one machine share its clock; others start theirs when the word reaches them."""
        monotonic_s, boot_id = body
        self._zero = monotonic_s if boot_id == boot_identity() else time.monotonic()

    def _stop(self, src: int, body: Any) -> None:
        self.stopping = True
        self.wake.set()

    def _go(self, src: int, body: Any) -> None:
        self.may_go = True

    # -- loop --------------------------------------------------------------------------------

    def run_until(self, finished: Callable[[], bool]) -> None:
        """Move messages, streams and tasks until `finished()`; errors of handlers come through."""
        quiet = 0
        while not finished():
            if self._turn():
                self.activity += 1
                quiet = 0
                continue
            quiet += 1
            self.wake.wait(BUSY_NAP_S if self.transport.busy else _nap_s(quiet))
            self.wake.clear()

    def _turn(self) -> bool:
        moved = self.transport.poll()
        while self._inbox:
            src, message = self._inbox.popleft()
            self._dispatch(src, message)
            moved = moved or message[0] != "heartbeat"
        for task in self._tasks:
            moved = task() or moved
        self._beat()
        return moved

    def _dispatch(self, src: int, message: Any) -> None:
        match message:
            case (str(kind), body) if kind in self._handlers:
                self._handlers[kind](src, body)
            case _:
                raise ProtocolError(f"rank {self.rank}: unexpected message {message!r} from {src}")

    def _beat(self) -> None:
        if time.monotonic() >= self._next_beat and self.begun and not self.stopping:
            self._next_beat = time.monotonic() + HEARTBEAT_S
            body = {"activity": self.activity, "waiting": self.waiting_for, **self.counts}
            self.send(SCHEDULER_RANK, "heartbeat", body)
            self.records.flush()


def _nap_s(quiet: int) -> float:
    return next(seconds for most, seconds in NAPS if most is None or quiet <= most)


def boot_identity() -> str:
    """Which machine, since which boot."""
    return _BOOT_ID.read_text().strip()
