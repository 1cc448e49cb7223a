"""A worker under a collective policy: one synchronous sum an iteration, no server."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from mlfabric.engines.roles.holding import GO_ON, HOLD, HOLDING
from mlfabric.engines.roles.names import update_id
from mlfabric.engines.roles.node import Incoming, Node
from mlfabric.engines.roles.role import LastingRole, Saved
from mlfabric.engines.tallies import new_tally
from mlfabric.payload import Payload, dense
from mlfabric.policies.base import Sums
from mlfabric.treesum import UP, Part, Seen, Side, TreeSum
from mlfabric.view import ModelView


class AllReduce:
    """One worker's side of one sum over all workers after another; `summed(sum)` is told each.

    Vectors that are dense are the engine's to carry where it has a way of its own; all others go
    by streams.
    """

    def __init__(self, node: Node, sums: Sums, summed: Callable[[Payload], None]) -> None:
        self._node = node
        self._sums = sums
        self._summed = summed
        self._number = 0
        self._workers = node.plan.context.workers
        self._worker = self._workers.index(node.host)
        self._side = Side(self._worker, ())
        self._seen = Seen(self._side)
        self._sum: TreeSum | None = None
        self._early: list[tuple[int, Part]] = []
        self._result: Payload | None = None
        self._rates = Rates(node, self._learn)
        self._learned = self._told = True
        self._begun_s = 0.0
        node.receive("share", 0, lambda stream: None, self._on_received)

    def start(self, update: Payload) -> None:
        """Begin the next operation; the one before has ended."""
        story = f"messages of all-reduce {self._number} from other workers"
        self._node.waits["worker"] = story
        self._begun_s = self._node.now()
        size = update.size if update.indices is None else 0
        pieces = self._sums.pieces(size, update.values.itemsize)
        if pieces is not self._side.pieces:
            self._side = Side(self._worker, pieces)
        self._seen = Seen(self._side)
        self._learned = self._told = not self._sums.measures
        own = self._node.dense_sums
        if update.indices is None and own is not None and own.takes(pieces):
            own.start(self._number, self._side, update.values, self._part_came, self._whole)
        else:
            self._sum = TreeSum(self._side)
            self._send(self._sum.start(update))
            early, self._early = self._early, []
            for number, part in early:
                self._take(number, part)
        self._tell_rates()

    # -- by streams --------------------------------------------------------------------------

    def _on_received(self, stream: Incoming) -> None:
        header = stream.header
        piece, way = header["key"]
        part = Part(header["from"], self._worker, piece, way, stream.payload())
        self._take(header["operation"], part)

    def _take(self, number: int, part: Part) -> None:
        """Others may be one operation ahead."""
        if self._sum is None or number != self._number:
            self._early.append((number, part))
            return
        if part.way == UP:
            self._part_came(part.src, part.piece, self._node.wire_bytes(part.payload))
        self._send(self._sum.receive(part))

    def _send(self, parts: Sequence[Part]) -> None:
        """Send, and take the result once it is complete."""
        assert self._sum is not None
        for part in parts:
            dst = self._workers[part.dst]
            header = {
                "kind": "share",
                "shard": 0,
                "updates": (),
                "transfer": None,
                "operation": self._number,
                "from": self._worker,
                "key": (part.piece, part.way),
                "final": dst,
                "requested_s": self._node.now(),
            }
            self._node.stream(dst, header, part.payload)
        result = self._sum.result()
        if result is not None:
            self._sum, self._result = None, result
            self._end()

    # -- by the engine -----------------------------------------------------------------------

    def _whole(self, result: NDArray[Any], sent_bytes: Sequence[int]) -> None:
        for dst, n_bytes in zip(self._workers, sent_bytes, strict=True):
            if n_bytes:
                record_sent(self._node, dst, n_bytes, self._begun_s)
        self._result = dense(result)
        self._end()

    # -- what links carry --------------------------------------------------------------------

    def _part_came(self, src: int, piece: int, n_bytes: int) -> None:
        if not self._told:
            self._seen.arrived(src, piece, n_bytes, self._node.now())
            self._tell_rates()

    def _tell_rates(self) -> None:
        """Once all has come that tells of rates, whoever collects them is told, once."""
        if not self._told and self._seen.complete:
            self._told = True
            collector = self._workers[self._side.pieces[0].root]
            self._node.send(collector, "seen", (self._number, self._seen.bytes_per_s()))

    def _learn(self, rates: Mapping[int, float]) -> None:
        self._sums.learn(rates)
        self._learned = True
        self._end()

    def _end(self) -> None:
        """The sum is the caller's once all know alike how the next one is to be made."""
        if self._result is None or not self._learned:
            return
        result, self._result = self._result, None
        self._number += 1
        self._summed(result)


class Rates:
    """Brings together what all workers have seen in an operation, and tells all of them."""

    def __init__(self, node: Node, learn: Callable[[Mapping[int, float]], None]) -> None:
        self._node = node
        self._told: dict[int, dict[str, Mapping[int, float]]] = defaultdict(dict)
        node.on("seen", self._one_has_seen)
        node.on("rates", lambda src, rates: learn(rates))

    def _one_has_seen(self, src: str, body: tuple[int, Mapping[int, float]]) -> None:
        number, rates = body
        workers, told = self._node.plan.context.workers, self._told[number]
        told[src] = rates
        if len(told) < len(workers):
            return
        del self._told[number]
        seen = {
            worker: [found[worker] for found in told.values() if worker in found]
            for worker in range(len(workers))
        }
        middle = {worker: statistics.median(rates) for worker, rates in seen.items() if rates}
        for host in workers:
            self._node.send(host, "rates", middle)


class Summing(Protocol):
    """What sums one vector of all workers after another, and tells each sum."""

    def start(self, update: Payload) -> None: ...


class AllreduceWorker(LastingRole):
    """Its synchronous loop: compute, sum over all workers, apply the sum, compute."""

    def __init__(
        self, node: Node, view: ModelView, sums: Callable[[Callable[[Payload], None]], Summing]
    ) -> None:
        self._node = node
        self._view = view
        self._sums = sums(self._take)
        self._iteration = 0
        self._own: Payload | None = None
        self._ready_s = 0.0
        self._finished = False
        self._until: int | None = None
        self._stands = False
        node.on(HOLD, lambda src, body: self._hold())
        node.on(GO_ON, lambda src, body: self._go_on(None))
        self._worker = node.plan.context.workers.index(node.host)
        if self._worker == 0:
            node.tallies[0] = new_tally()

    def start(self) -> None:
        """The first snapshot, then the computation."""
        self._tell()
        self._compute()

    def finish(self) -> None:
        """The last snapshot; what is summed later counts for nothing."""
        self._offer(last=True)
        self._finished = True

    @property
    def name(self) -> str:
        return "worker"

    def hold_until(self, until: int) -> None:
        """All stand still once they have applied the sum of iteration `until`."""
        self._go_on(until)

    @property
    def may_be_saved(self) -> bool:
        return self._stands

    def state(self) -> Any:
        """How many sums it has applied, and its view."""
        return self._iteration, self._view.state()

    def restore(self, saved: Saved) -> None:
        self._iteration, view = saved(self._node.host, self.name)
        self._view.restore(view)

    def _hold(self) -> None:
        """Begin no further iteration: another worker may be one ahead."""
        self._until = self._iteration
        self._node.send(self._node.plan.scheduler, HOLDING, self._iteration)

    def _go_on(self, until: int | None) -> None:
        self._until = until
        if self._stands:
            self._stands = False
            self._next()

    def _next(self) -> None:
        """The next iteration, unless all are to stand still."""
        if self._until is not None and self._iteration > self._until:
            self._stands = True
            self._node.waits["worker"] = "a checkpoint"
        else:
            self._compute()

    def _offer(self, *, last: bool = False) -> None:
        if self._worker == 0:
            self._node.snapshot(self._view.values, self._view.version, last=last)

    def _compute(self) -> None:
        self._node.waits["worker"] = f"its computation of iteration {self._iteration}"
        self._node.compute(self._iteration, self._view.values, self._sum)

    def _sum(self, iteration: int, update: Payload) -> None:
        self._own, self._ready_s = update, self._node.now()
        self._sums.start(update)

    def _take(self, result: Payload) -> None:
        if self._finished:
            return
        assert self._own is not None
        pulled, workers = self._view.version, len(self._node.plan.context.workers)
        self._view.summed(result, workers)
        record_summed(self._node, self._worker, self._iteration, pulled, self._ready_s, self._own)
        self._tell()
        self._iteration += 1
        self._next()

    def _tell(self) -> None:
        if self._worker == 0:
            self._node.tallies[0] |= {"version": self._view.version, "applied": self._view.version}
            self._offer()


def record_summed(
    node: Node, worker: int, iteration: int, pulled: int, ready_s: float, update: Payload
) -> None:
    """Note that a worker's update was applied, at version `pulled`, within a sum over all."""
    node.record(
        "update",
        shard=0,
        id=update_id(node.plan.context.workers[worker], iteration),
        worker=worker,
        iteration=iteration,
        version_pulled=pulled,
        version_applied=pulled,
        status="applied",
        delay=0,
        ready_s=ready_s,
        resolved_s=node.now(),
        norm=update.norm(),
        push_bytes=node.wire_bytes(update),
    )


def record_sent(node: Node, dst: str, n_bytes: int, begun_s: float) -> None:
    """Note all that a worker has sent to another one for a sum that has just ended."""
    node.record(
        "transfer",
        kind="share",
        shard=0,
        updates=(),
        src=node.host,
        dst=dst,
        next_hop=dst,
        bytes=n_bytes,
        complete=True,
        requested_s=begun_s,
        started_s=begun_s,
        ended_s=node.now(),
    )
