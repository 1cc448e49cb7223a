"""A worker under a collective policy: one synchronous sum an iteration, no server."""

from __future__ import annotations

from collections.abc import Sequence

from mlfabric.engines.roles.names import update_id
from mlfabric.engines.roles.node import Incoming, Node
from mlfabric.payload import Payload
from mlfabric.policies.base import Collective, Message, Operations
from mlfabric.view import ModelView


class AllreduceWorker:
    """Its synchronous loop: compute, sum over all workers, apply the sum, compute."""

    def __init__(self, node: Node, view: ModelView, operations: Operations) -> None:
        self._node = node
        self._view = view
        self._make = operations
        self._operations: dict[int, Collective] = {}
        self._iteration = 0
        self._own: Payload | None = None
        self._ready_s = 0.0
        self._worker = node.plan.context.workers.index(node.host)
        node.on_received = self._on_received
        if self._worker == 0:
            node.counts = {"version": 0, "applied": 0, "dropped": 0}

    def start(self) -> None:
        """The first snapshot, then the computation."""
        self._offer()
        self._compute()

    def finish(self) -> None:
        """The last snapshot."""
        self._offer(last=True)

    def _offer(self, *, last: bool = False) -> None:
        if self._worker == 0:
            self._node.snapshot(self._view.values, self._view.version, last=last)

    def _compute(self) -> None:
        self._node.waiting_for = f"its computation of iteration {self._iteration}"
        self._node.compute(self._iteration, self._view.values, self._sum)

    def _sum(self, iteration: int, update: Payload) -> None:
        self._own, self._ready_s = update, self._node.now()
        self._node.waiting_for = f"messages of all-reduce {iteration} from other workers"
        self._send(iteration, self._operation(iteration).start(update, self._ready_s))

    def _operation(self, iteration: int) -> Collective:
        """Others may be one operation ahead."""
        if iteration not in self._operations:
            self._operations[iteration] = self._make()
        return self._operations[iteration]

    def _send(self, iteration: int, messages: Sequence[Message]) -> None:
        """Send, and take the result once it is complete."""
        for message in messages:
            dst = self._node.plan.context.workers[message.dst]
            header = {
                "kind": "share",
                "updates": (),
                "transfer": None,
                "operation": iteration,
                "from": self._worker,
                "key": message.key,
                "told": message.told,
                "final": dst,
                "requested_s": self._node.now(),
            }
            self._node.stream(dst, header, message.payload)
        result = self._operations[iteration].result()
        if result is not None:
            del self._operations[iteration]
            self._take(result)

    def _on_received(self, stream: Incoming) -> None:
        iteration: int = stream.header["operation"]
        key, told = stream.header["key"], stream.header["told"]
        message = Message(stream.header["from"], self._worker, key, stream.payload(), told)
        self._send(iteration, self._operation(iteration).receive(message, self._node.now()))

    def _take(self, result: Payload) -> None:
        assert self._own is not None
        pulled, workers = self._view.version, len(self._node.plan.context.workers)
        self._view.summed(result, workers)
        record_summed(self._node, self._worker, self._iteration, pulled, self._ready_s, self._own)
        if self._worker == 0:
            self._node.counts |= {"version": self._view.version, "applied": self._view.version}
            self._offer()
        self._iteration += 1
        self._compute()


def record_summed(
    node: Node, worker: int, iteration: int, pulled: int, ready_s: float, update: Payload
) -> None:
    """Note that a worker's update was applied, at version `pulled`, within a sum over all."""
    node.record(
        "update",
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
