"""What every rank has: a transport, a clock, records, and a loop that naps when nothing moves."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlfabric.engines.mpi.alarms import Alarms
from mlfabric.engines.mpi.computing import Computation, Computed
from mlfabric.engines.mpi.densesum import DenseSums
from mlfabric.engines.mpi.failures import Failures
from mlfabric.engines.mpi.pacing import Pacing
from mlfabric.engines.mpi.plan import SCHEDULER_RANK, RankPlan
from mlfabric.engines.mpi.ratewatch import RateWatch
from mlfabric.engines.mpi.records import REPLICA, NoRecords, Records, SnapshotFiles
from mlfabric.engines.mpi.streams import Incoming, Outgoing
from mlfabric.engines.mpi.summing import FlowingSum, LateSum, RunningSum, are_dense
from mlfabric.engines.mpi.transport import Transport
from mlfabric.engines.mpi.waiting import News, Pauses
from mlfabric.engines.plan import Trainer
from mlfabric.engines.roles.casting import coordinator_hosts, plans_transfers
from mlfabric.engines.roles.names import of_shard
from mlfabric.engines.roles.node import Header, OutgoingSum, story
from mlfabric.engines.roles.node import Incoming as IncomingStream
from mlfabric.engines.roles.node import Outgoing as OutgoingStream
from mlfabric.engines.snapshots import Snapshots
from mlfabric.engines.tallies import Tally
from mlfabric.errors import GivenUp, MlfabricError, ProtocolError, SchedulerLost
from mlfabric.events import Event, TransferDone, TransferEnding, TransferProgress
from mlfabric.payload import Payload, to_wire, wire_size

HEARTBEAT_S = 1.0

OnStream = Callable[[IncomingStream], None]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Node:
    """One rank, as roles see it (`roles.node.Node`); a message is (kind, body)."""

    def __init__(self, comm: MPI.Intracomm, plan: RankPlan) -> None:
        self._plan = plan
        self.rank = comm.Get_rank()
        self.host = plan.hosts[self.rank]
        pacing = Pacing(self._link_bytes_per_s) if plan.paced else None
        self.transport = Transport(
            comm, plan.context.chunk_bytes, pacing, tolerant=plan.fault_tolerant
        )
        self.news = News()
        self._pauses = Pauses(self.news)
        self.waits: dict[str, str] = {}
        self.tallies: dict[int, Tally] = {}
        self.activity = 0
        self.may_go = False
        self.held_version = 0
        self.on_settled: Callable[[int, bool], None] | None = None
        self.on_applied: Callable[[NDArray[Any], int], None] | None = None
        self.on_sent: Callable[[str, int], None] | None = None
        self._stopping = False
        self._coordinators = coordinator_hosts(plan)
        self._plans_transfers = plans_transfers(plan)
        self._rank_of = {host: rank for rank, host in enumerate(plan.hosts)}
        self._records = _records(plan, self.rank)
        self._computation: Computation | None = None
        self._computed: Callable[[int, Payload], None] | None = None
        self._alarms = Alarms()
        self._handlers: dict[str, Callable[[str, Any], None]] = {}
        self._receivers: dict[tuple[str, int], tuple[OnStream, OnStream]] = {}
        self._local: deque[Incoming] = deque()
        self._tasks: list[Callable[[], bool]] = []
        self._inbox: deque[tuple[int, Any]] = deque()
        self._dense_sums: DenseSums | None = None
        self._snapshots: Snapshots | None = None
        self._series: str | None = None
        self._lost: set[str] = set()
        self._lost_calls: list[Callable[[str], None]] = []
        self._zero: float | None = None
        self._next_beat = 0.0
        self.transport.on_stream = self._on_stream
        self.transport.on_chunk = self._on_chunk
        self.transport.on_cut = self._record_transfer
        self.transport.on_message = lambda src, message: self._inbox.append((src, message))
        self.every_turn(lambda: self._alarms.ring(self.now()))
        self.on("begin", self._begin)
        self.on("stop", self._stop)
        self.on("go", self._go)
        if plan.fault_tolerant:
            self.on("lost", self._lose)
            self.on("die", lambda src, body: os.kill(os.getpid(), signal.SIGKILL))
            self._failures = Failures(comm)
            self.every_turn(self._look_for_failures)

    @classmethod
    def of_world(cls, plan: RankPlan) -> Node:
        """This process as a rank among all that were started with it."""
        return cls(MPI.COMM_WORLD, plan)

    @property
    def dense_sums(self) -> DenseSums | None:
        return self._dense_sums

    def sums_densely(self) -> None:
        """Connect all workers for sums of dense vectors; each of them must do so.

        Not where links are shaped here: streams are what that is done to.
        """
        if self.plan.paced:
            return
        ranks = [self._rank_of[host] for host in self.plan.context.workers]
        self._dense_sums = DenseSums(self.transport.comm, ranks)
        self.every_turn(self._dense_sums.poll)

    # -- messages ----------------------------------------------------------------------------

    @property
    def plan(self) -> RankPlan:
        return self._plan

    @property
    def stopping(self) -> bool:
        return self._stopping

    def on(self, kind: str, handler: Callable[[str, Any], None]) -> None:
        self._handlers[kind] = handler

    def every_turn(self, task: Callable[[], bool]) -> None:
        """Call `task` at every turn of the loop; it tells whether it did anything."""
        self._tasks.append(task)

    def send(self, host: str, kind: str, body: Any = None) -> None:
        if host == self.host:
            self._inbox.append((self.rank, (kind, body)))
        else:
            self.transport.send(self._rank_of[host], (kind, body))

    def send_all(self, kind: str, body: Any = None) -> None:
        """Send to every host, this one included."""
        for host in self.alive:
            self.send(host, kind, body)

    @property
    def alive(self) -> list[str]:
        """Hosts that have not been lost."""
        return [host for host in self.plan.hosts if host not in self._lost]

    def on_lost(self, call: Callable[[str], None]) -> None:
        self._lost_calls.append(call)

    def _look_for_failures(self) -> bool:
        """Send nothing to a rank that has failed, and tell whoever decides that it is lost."""
        for rank in self._failures.new():
            self.transport.forget(rank)
            if not self.begun:
                raise MlfabricError(f"{self.plan.hosts[rank]} died before the run had begun")
            if rank == SCHEDULER_RANK and self.stopping:
                self.may_go = True  # it has said so, and gone itself
            elif rank == SCHEDULER_RANK:
                raise SchedulerLost(f"{self.plan.scheduler} is lost: nobody keeps time or plans")
            else:
                self.send(self.plan.scheduler, "suspect", self.plan.hosts[rank])
        return False

    def _lose(self, src: str, host: str) -> None:
        if host == self.host:
            raise GivenUp(f"{self.host} was held for lost, as nothing was heard from it")
        self._lost.add(host)
        self.transport.forget(self._rank_of[host])
        for call in self._lost_calls:
            call(host)

    def receive(self, kind: str, shard: int, announced: OnStream, complete: OnStream) -> None:
        self._receivers[kind, shard] = announced, complete

    def report(self, event: Event, shard: int) -> None:
        if self._coordinators and not self.stopping:
            self.send(self._coordinators[shard], of_shard("event", shard), event)

    def record(self, row: str, **values: Any) -> None:
        self._records.add(row, **values)

    def sync_records(self) -> None:
        """Return once all rows that are written are on the disk."""
        self._records.sync()

    def records_bytes(self) -> int:
        """How many bytes of rows there are, all of them written."""
        return self._records.flush()

    def snapshot(
        self, model: NDArray[Any], version: int, *, last: bool = False, shard: int = 0
    ) -> None:
        """Each rank shows what it has: whoever scores them puts the shards together."""
        if self.plan.run_dir is None:
            return
        self._show(model, version, str(shard), steady=len(self.plan.servers) > 1, last=last)

    def follow(self, model: NDArray[Any], version: int, *, last: bool = False) -> None:
        if self.plan.run_dir is not None and self.begun:
            self._show(model, version, REPLICA, steady=True, last=last)

    def _show(
        self, model: NDArray[Any], version: int, series: str, *, steady: bool, last: bool
    ) -> None:
        """A rank goes on with one series of snapshots: a shard's, or the replica's."""
        if self._series != series:
            assert self.plan.run_dir is not None
            files = SnapshotFiles(self.plan.run_dir, series, self.rank)
            if self._snapshots is None:
                self.every_turn(self._look)
            self._snapshots = Snapshots(self.plan.snapshot_interval_s, files.take, steady=steady)
            self._series = series
        assert self._snapshots is not None
        self._snapshots.offer(model, version, self.now(), last=last)

    def _look(self) -> bool:
        assert self._snapshots is not None
        if not self.stopping:
            self._snapshots.look(self.now())
        return False

    # -- streams -----------------------------------------------------------------------------

    def wire_bytes(self, payload: Payload) -> int:
        return wire_size(payload)

    def stream(self, dst: str, header: Header, payload: Payload) -> OutgoingStream:
        description, data = to_wire(payload)
        header = {**header, "payload": description, "sent_s": self.now()}
        if dst == self.host:
            self._local.append(Incoming(self.rank, header, data))
            return Delivered()
        return self.transport.stream(self._rank_of[dst], header, data)

    def stream_zeros(self, dst: str, header: Header, n_bytes: int) -> OutgoingStream:
        header = {**header, "sent_s": self.now()}
        return self.transport.stream(self._rank_of[dst], header, np.zeros(n_bytes, np.uint8))

    def pass_on(self, stream: IncomingStream, dst: str, header: Header) -> Outgoing:
        assert isinstance(stream, Incoming)
        header = {**header, "sent_s": self.now()}
        outgoing = self.transport.stream(
            self._rank_of[dst], header, stream.data, stream.received_bytes
        )

        def follow() -> None:
            outgoing.available = stream.received_bytes

        stream.on_progress.append(follow)
        return outgoing

    def pass_on_sum(
        self,
        streams: Sequence[IncomingStream],
        known: Sequence[Payload],
        dst: str,
        header: Header,
    ) -> OutgoingSum:
        """Chunk by chunk where all is dense; sparse sums begin once all is here."""
        coming = [stream for stream in streams if isinstance(stream, Incoming)]
        if not are_dense(coming) or any(payload.indices is not None for payload in known):
            return LateSum(coming, known, lambda found: self.stream(dst, header, found))
        running = RunningSum(coming, known)
        header = {**header, "payload": running.description, "sent_s": self.now()}
        outgoing = self.transport.stream(
            self._rank_of[dst], header, running.data, running.ready_bytes
        )
        running.feeds(outgoing)
        return FlowingSum(running, outgoing)

    def cut(self, outgoing: OutgoingStream) -> None:
        if isinstance(outgoing, LateSum):
            outgoing.is_cut = True
            if outgoing.outgoing is not None:
                self.cut(outgoing.outgoing)
        elif isinstance(outgoing, FlowingSum):
            self.transport.cut(outgoing.outgoing)
        elif isinstance(outgoing, Outgoing):
            self.transport.cut(outgoing)

    def _on_stream(self, stream: Incoming) -> None:
        announced, _ = self._receiver(stream)
        announced(stream)

    def _receiver(self, stream: Incoming) -> tuple[OnStream, OnStream]:
        return self._receivers[stream.header["kind"], stream.header["shard"]]

    def _on_chunk(self, stream: Incoming) -> None:
        for follow in stream.on_progress:
            follow()
        if stream.done:
            self._record_transfer(stream)
            _, complete = self._receiver(stream)
            complete(stream)
        self._report_arrival(stream)

    def _report_arrival(self, stream: Incoming) -> None:
        """Tell the coordinator what this chunk says of the transfer: its rate, or its end."""
        transfer, shard = stream.header["transfer"], stream.header["shard"]
        if stream.done:
            self.report(TransferDone(transfer, len(stream.data), stream.bytes_per_s), shard)
        elif stream.ending:
            self.report(TransferEnding(transfer), shard)
        elif self._plans_transfers and stream.rate_is_news():
            assert stream.bytes_per_s is not None
            seen = TransferProgress(transfer, stream.received_bytes, stream.bytes_per_s)
            self.report(seen, shard)

    def _record_transfer(self, stream: Incoming) -> None:
        """One row a transfer, complete or cut short, written by its receiver."""
        header = stream.header
        self.record(
            "transfer",
            kind=header["kind"],
            shard=header["shard"],
            updates=list(header["updates"]),
            src=self.plan.hosts[stream.src],
            dst=header["final"],
            next_hop=self.host,
            bytes=stream.received_bytes,
            complete=not stream.cut_short,
            requested_s=min(header["requested_s"], header["sent_s"]),
            started_s=header["sent_s"],
            ended_s=self.now(),
        )

    # -- computation -------------------------------------------------------------------------

    def computes_with(self, trainer: Trainer) -> None:
        """Make this the host of a worker."""
        worker = self.plan.worker_number[self.host]
        emulated_s = self.plan.computation_s
        self._computation = Computation(
            trainer,
            lambda iteration: emulated_s(worker, iteration),
            self.now,
            self.news.tell,
            loaded=self.plan.checkpoint is not None,
        )
        self.every_turn(self.fetch)

    def compute(
        self, iteration: int, view: NDArray[Any], done: Callable[[int, Payload], None]
    ) -> None:
        assert self._computation is not None
        if not self.stopping:
            self._computed = done
            self._computation.ask(iteration, view)

    @property
    def computing(self) -> bool:
        """Whether an update is being computed, or was and has not been fetched."""
        return self._computed is not None

    def fetch(self) -> bool:
        """Hand on an update that has been computed, if there is one."""
        assert self._computation is not None
        found = self._computation.fetch()
        if found is None:
            return False
        self._record_computation(found)
        done, self._computed = self._computed, None
        assert done is not None
        if not self.stopping:
            done(found.iteration, found.payload.scaled(self.plan.step_scale))
        return True

    def _record_computation(self, found: Computed) -> None:
        self.record(
            "computation",
            worker=self.plan.worker_number[self.host],
            iteration=found.iteration,
            started_s=found.started_s,
            real_s=found.real_s,
            emulated_s=found.emulated_s,
            overran=found.real_s > self.plan.nominal_s,
        )

    @property
    def idle(self) -> bool:
        """Whether the run is over for this rank: its computation, if any, has ended."""
        if self.stopping and self._computation is not None:
            self._computation.stop()
            return self._computation.ended
        return self.stopping

    # -- alarms ------------------------------------------------------------------------------

    def wake_at(self, at_s: float, call: Callable[[], None]) -> None:
        self._alarms.set(at_s, call)

    def watch_rates(self, tell: Callable[[str, float], None]) -> None:
        assert self.plan.read_rates is not None
        self.every_turn(RateWatch(self, self.plan.read_rates, tell))

    # -- clock -------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        return self._zero is not None

    def now(self) -> float:
        """Seconds of the run's clock."""
        return self.since_zero(time.monotonic())

    def since_zero(self, monotonic_s: float) -> float:
        return self.plan.begins_at_s if self._zero is None else monotonic_s - self._zero

    def start_clock(self) -> None:
        """Let the first host's word start the clocks of all, and wait for it."""
        self.on("heartbeat", lambda src, body: None)
        if self.rank == 0:
            self.send_all("begin", (time.monotonic(), boot_identity()))
        self.run_until(lambda: self.begun)

    def _link_bytes_per_s(self) -> float:
        assert self.plan.read_rates is not None
        return self.plan.read_rates(self.now())[self.rank]

    def _begin(self, src: str, body: Any) -> None:
        """Ranks of one machine share its clock; others start theirs when the word reaches them."""
        monotonic_s, boot_id = body
        here = time.monotonic() - self.plan.begins_at_s
        self._zero = monotonic_s if boot_id == boot_identity() else here

    def _stop(self, src: str, body: Any) -> None:
        self._stopping = True
        self.news.tell()

    def _go(self, src: str, body: Any) -> None:
        self.may_go = True

    # -- loop --------------------------------------------------------------------------------

    def run_until(self, finished: Callable[[], bool]) -> None:
        """Move messages, streams and tasks until `finished()`; errors of handlers come through."""
        while not finished():
            if self._turn():
                self.activity += 1
                self._pauses.over()
            else:
                self._pauses.wait(in_haste=self._sending)

    @property
    def _sending(self) -> bool:
        dense = self._dense_sums
        return self.transport.sending or (dense is not None and dense.sending)

    def _turn(self) -> bool:
        moved = self.transport.poll()
        while self._local:
            stream = self._local.popleft()
            self._on_stream(stream)
            self._on_chunk(stream)
            moved = True
        while self._inbox:
            src, message = self._inbox.popleft()
            self._dispatch(src, message)
            moved = moved or message[0] != "heartbeat"
        for task in self._tasks:
            moved = task() or moved
        self._beat()
        return moved

    def _dispatch(self, src: int, message: Any) -> None:
        if self.plan.hosts[src] in self._lost:
            return
        match message:
            case (str(kind), body) if kind in self._handlers:
                self._handlers[kind](self.plan.hosts[src], body)
            case _:
                raise ProtocolError(f"rank {self.rank}: unexpected message {message!r} from {src}")

    def _beat(self) -> None:
        if time.monotonic() >= self._next_beat and self.begun and not self.stopping:
            self._next_beat = time.monotonic() + HEARTBEAT_S
            tallies = list(self.tallies.values())
            body = {"activity": self.activity, "waiting": story(self.waits), "tallies": tallies}
            self.send(self.plan.scheduler, "heartbeat", body)
            self._records.flush()

    def close(self) -> None:
        """The rank's last words: its totals, where it has counts; MPI may be finalized then."""
        self.transport.cut_all()  # what handlers have begun since the run was over
        if self._dense_sums is not None:
            self._dense_sums.close()
        self.transport.close()
        if self._dense_sums is not None:
            self._dense_sums.drain()
        self.news.close()
        for shard, tally in self.tallies.items():
            servers = len(self.plan.servers)
            self.record("totals", shard=shard, shards=servers, elapsed_s=self.now(), **tally)
        self._records.close()


def _records(plan: RankPlan, rank: int) -> Records | NoRecords:
    if plan.run_dir is None:
        return NoRecords()
    goes_on = plan.checkpoint is not None
    return Records(plan.run_dir, rank, at_once=plan.fault_tolerant, more=goes_on)


class Delivered:
    """A stream that has not left its host."""

    done = True


def boot_identity() -> str:
    """Which machine, since which boot."""
    return _BOOT_ID.read_text().strip()
