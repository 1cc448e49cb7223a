"""A worker's daemon under a collective policy: one synchronous sum an iteration, no server."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence

from mlfabric.engines.mpi.computing import Computation
from mlfabric.engines.mpi.coordination import update_id
from mlfabric.engines.mpi.node import Node
from mlfabric.engines.mpi.part import ComputingPart
from mlfabric.engines.mpi.plan import FIRST_WORKER_RANK, Trainer
from mlfabric.engines.mpi.records import Snapshots
from mlfabric.engines.mpi.transport import Incoming
from mlfabric.payload import Payload, from_wire, to_wire
from mlfabric.policies.base import Collective, Message
from mlfabric.view import ModelView


class AllreduceWorker(ComputingPart):
    """Its synchronous loop: compute, sum over all workers, apply the sum, compute."""

    def __init__(
        self, node: Node, trainer: Trainer, view: ModelView, collective: Callable[[], Collective]
    ) -> None:
        super().__init__(node)
        self.computation = Computation(node, trainer, view, self._all_reduce)
        self._make = collective
        self._operations: dict[int, Collective] = {}
        self._first = node.host == node.plan.context.workers[0]
        self._snapshots = Snapshots(node.plan.run_dir, node.plan.snapshot_interval_s, node.now)
        node.transport.on_chunk = self._on_chunk
        node.every_turn(self._serve)
        if self._first:
            node.counts = {"version": 0, "applied": 0, "dropped": 0}

    def start(self) -> None:
        """The first snapshot, then the computation."""
        self._offer(last=False)
        super().start()

    def finish(self) -> None:
        """The last snapshot, when the run is over."""
        self._offer(last=True)

    def _offer(self, *, last: bool) -> None:
        if self._first:
            view = self.computation.view
            self._snapshots.offer(view.values, view.version, last=last)

    def _serve(self) -> bool:
        try:
            ask = self.computation.asked.get_nowait()
        except queue.Empty:
            return False
        iteration, payload = ask.body
        self.node.waiting_for = f"messages of all-reduce {iteration} from other workers"
        self._send(iteration, self._operation(iteration).start(payload))
        return True

    def _operation(self, iteration: int) -> Collective:
        if iteration not in self._operations:
            self._operations[iteration] = self._make()
        return self._operations[iteration]

    def _send(self, iteration: int, messages: Sequence[Message]) -> None:
        """Send, and hand the result over once it is complete."""
        node = self.node
        for message in messages:
            description, data = to_wire(message.payload)
            header = {
                "kind": "ring",
                "updates": (),
                "operation": iteration,
                "key": message.key,
                "payload": description,
                "final": node.plan.context.workers[message.dst],
                "requested_s": node.now(),
                "sent_s": node.now(),
            }
            node.transport.stream(FIRST_WORKER_RANK + message.dst, header, data)
        result = self._operations[iteration].result()
        if result is not None:
            del self._operations[iteration]
            self.computation.answer(result)

    def _on_chunk(self, stream: Incoming) -> None:
        if not stream.done:
            return
        header = stream.header
        iteration: int = header["operation"]
        self.node.record_transfer(stream)
        operation = self._operation(iteration)
        payload = from_wire(header["payload"], stream.data)
        self._send(iteration, operation.receive(header["key"], payload))

    def _all_reduce(self, computation: Computation, iteration: int, update: Payload) -> None:
        node, view = self.node, computation.view
        ready, pulled = node.now(), view.version
        summed = computation.ask("sum", (iteration, update))
        view.summed(summed, len(node.plan.context.workers))
        node.records.add(
            "update",
            id=update_id(node.host, iteration),
            worker=node.rank - FIRST_WORKER_RANK,
            iteration=iteration,
            version_pulled=pulled,
            version_applied=pulled,
            status="applied",
            delay=0,
            ready_s=ready,
            resolved_s=node.now(),
            norm=update.norm(),
            push_bytes=len(to_wire(update)[1]),
        )
        if self._first:
            node.counts |= {"version": view.version, "applied": view.version}
            self._offer(last=False)
