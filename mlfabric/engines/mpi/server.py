"""The server's rank: receives updates and sums, applies them when told, sends frozen models."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlfabric.actions import CancelTransfer, CommitGroup, DistributeModel
from mlfabric.engines.mpi.coordination import sequence, worker_of
from mlfabric.engines.mpi.node import Node
from mlfabric.engines.mpi.part import Part
from mlfabric.engines.mpi.records import Snapshots
from mlfabric.engines.mpi.transport import Incoming
from mlfabric.events import Update, UpdateReady
from mlfabric.payload import Payload, from_wire, to_wire
from mlfabric.store import ModelStore


class Server(Part):
    """Holds the model; whoever coordinates says what to apply and whom to send it."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._store = ModelStore(np.load(node.plan.run_dir / "model0.npy"))
        self._snapshots = Snapshots(node.plan.run_dir, node.plan.snapshot_interval_s, node.now)
        self._arrived: dict[str, Payload] = {}
        self._cancelled: set[str] = set()
        self._included: dict[str, int] = {}
        self._held = dict.fromkeys(node.plan.context.workers, 0)
        node.transport.on_stream = self._on_stream
        node.transport.on_chunk = self._on_chunk
        node.on("commit", self._commit)
        node.on("cancel", self._cancel)
        node.on("distribute", self._distribute)
        node.waiting_for = "updates"

    def _on_stream(self, stream: Incoming) -> None:
        """A worker that sends at once announces its update with the stream itself."""
        if "update" in stream.header:
            update: Update = stream.header["update"]
            self.node.report(UpdateReady(update))

    def _on_chunk(self, stream: Incoming) -> None:
        transfer = stream.header["transfer"]
        if stream.done:
            if transfer not in self._cancelled:
                self._arrived[transfer] = from_wire(stream.header["payload"], stream.data)
            self.node.record_transfer(stream)
        self.node.report_arrival(stream, transfer)

    def _commit(self, src: int, action: CommitGroup) -> None:
        payload = self._arrived.pop(action.transfer)
        self._store.apply(payload, len(action.updates))
        for name in action.updates:
            self._included[worker_of(name)] = sequence(name)
        self._snapshots.offer(self._store.model, self._store.version)

    def _cancel(self, src: int, action: CancelTransfer) -> None:
        """Throw away what has come, and what may still come of it."""
        self._arrived.pop(action.transfer, None)
        self._cancelled.add(action.transfer)

    def _distribute(self, src: int, action: DistributeModel) -> None:
        """Send one frozen copy along the tree; it says which updates of its receivers it holds."""
        payload = self._store.freeze(action.since)
        description, data = to_wire(payload)
        receivers = [dst for _, _, dst in action.edges]
        header = {
            "kind": "model",
            "updates": (),
            "version": self._store.version,
            "payload": description,
            "included": {w: self._included[w] for w in receivers if w in self._included},
            "edges": action.edges,
        }
        send_along(self.node, header, data, len(data))
        for worker in receivers:
            self._held[worker] = self._store.version
        self._store.forget_before(min(self._held.values()))

    def start(self) -> None:
        """The first snapshot."""
        self._snapshots.offer(self._store.model, self._store.version)

    def finish(self) -> None:
        """The last snapshot, when the run is over."""
        self._snapshots.offer(self._store.model, self._store.version, last=True)


def send_along(node: Node, header: dict[str, Any], data: Any, available: int) -> list[Any]:
    """Start the streams from this host that a model's tree asks for."""
    return [
        node.transport.stream(
            node.plan.rank_of(dst),
            {**header, "transfer": transfer, "final": dst, "sent_s": node.now()},
            data,
            available,
        )
        for transfer, edge_src, dst in header["edges"]
        if edge_src == node.host
    ]
