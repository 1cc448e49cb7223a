"""A server: receives updates and sums, applies them when told, sends frozen models."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mlfabric.actions import CancelTransfer, CommitGroup, DistributeModel, SynchronizeReplica
from mlfabric.engines.roles.chain import Chain
from mlfabric.engines.roles.names import sequence, worker_of
from mlfabric.engines.roles.node import Header, Incoming, Outgoing
from mlfabric.engines.roles.role import LastingRole, Saved
from mlfabric.engines.roles.shard import Shard
from mlfabric.events import Update, UpdateReady
from mlfabric.payload import Payload, dense, total
from mlfabric.store import ModelStore


class Server(LastingRole):
    """Holds a share of the model; its coordinator says what to apply and whom to send it."""

    def __init__(
        self, shard: Shard, store: ModelStore, included: dict[str, int] | None = None
    ) -> None:
        self._shard = shard
        self._node = shard.node
        self._store = store
        self._arrived: dict[str, Payload] = {}
        self._cancelled: set[str] = set()
        self._sending: dict[str, Outgoing] = {}
        self._included = included if included is not None else {}
        self._held = dict.fromkeys(shard.context.workers, store.version)
        self._oldest_held = store.version
        replication = shard.context.replication
        chained = replication is not None and replication.kind == "chain"
        self._chain = Chain(shard, replication.host) if replication and chained else None
        shard.receive(("update", "sum"), self._announced, self._complete)
        shard.on("commit", self._commit)
        shard.on("discard", self._discard)
        shard.on("cancel", self._cancel)
        shard.on("distribute", self._distribute)
        shard.on("synchronize", self._synchronize)
        shard.node.on_lost(self._on_lost)
        shard.waits_for("server", "updates")

    def start(self) -> None:
        """The first snapshot."""
        self._shard.snapshot(self._store.model, self._store.version)

    def finish(self) -> None:
        """The last snapshot."""
        self._shard.snapshot(self._store.model, self._store.version, last=True)

    @property
    def name(self) -> str:
        return f"server {self._shard.number}"

    @property
    def may_be_saved(self) -> bool:
        return self._chain is None or self._chain.is_idle

    def state(self) -> Any:
        """The model and its memory, its version, and each worker's last update in it."""
        return self._store.state().values, self._store.version, dict(self._included)

    def restore(self, saved: Saved) -> None:
        values, version, included = saved_server(self._shard, saved)
        self._store.restore(dense(values), version)
        self._included.update(included)
        self._held = dict.fromkeys(self._held, version)
        self._oldest_held = version

    def _announced(self, stream: Incoming) -> None:
        """A worker that sends at once announces its update with the stream itself."""
        if "update" in stream.header:
            update: Update = stream.header["update"]
            self._shard.report(UpdateReady(update))

    def _complete(self, stream: Incoming) -> None:
        transfer = stream.header["transfer"]
        if transfer not in self._cancelled:
            self._arrived[transfer] = stream.payload()

    def _commit(self, src: str, action: CommitGroup) -> None:
        arrived = [
            self._arrived.pop(transfer).scaled(scale)
            for transfer, scale in zip(action.transfers, action.scales, strict=True)
        ]
        update = total(arrived)
        if self._chain is None:
            self._apply(update, action)
        else:
            self._chain.forward(update, action.updates, lambda: self._apply(update, action))

    def _apply(self, update: Payload, action: CommitGroup) -> None:
        self._store.apply(update, len(action.updates))
        for name in action.updates:
            self._included[worker_of(name)] = sequence(name)
        if self._node.on_applied is not None:
            self._node.on_applied(self._store.model, self._store.version)
        self._shard.snapshot(self._store.model, self._store.version)

    def _on_lost(self, host: str) -> None:
        """Nobody waits for a replica that is gone, nor keeps what a lost worker does not hold."""
        replication = self._shard.context.replication
        if self._chain is not None and replication is not None and host == replication.host:
            self._chain.release()
            self._chain = None
        if self._held.pop(host, None) == self._oldest_held:
            self._forget()

    def _synchronize(self, src: str, action: SynchronizeReplica) -> None:
        """Send the replica all that is here."""
        header = self._shard.header(
            "state",
            (),
            transfer=action.transfer,
            final=action.dst,
            requested_s=self._node.now(),
            version=self._store.version,
            included=dict(self._included),
        )
        self._node.stream(action.dst, header, self._store.state())

    def _discard(self, src: str, action: CancelTransfer) -> None:
        """Throw away what has come, and what may still come of it."""
        if self._arrived.pop(action.transfer, None) is None:
            self._cancelled.add(action.transfer)

    def _cancel(self, src: str, action: CancelTransfer) -> None:
        """Stop sending a model that cannot arrive."""
        sent = self._sending.pop(action.transfer, None)
        if sent is not None:
            self._node.cut(sent)

    def _distribute(self, src: str, action: DistributeModel) -> None:
        if self._chain is None:
            self._send(action)
        else:
            self._chain.after(lambda: self._send(action))

    def _send(self, action: DistributeModel) -> None:
        """Send one frozen copy along the tree; it says which updates of its receivers it holds."""
        payload = self._store.freeze(action.since)
        receivers = [dst for _, _, dst in action.edges]
        children: dict[str, list[tuple[str, str]]] = {}
        for transfer, edge_src, dst in action.edges:
            children.setdefault(edge_src, []).append((transfer, dst))
        header = self._shard.header(
            "model",
            (),
            version=self._store.version,
            included={w: self._included[w] for w in receivers if w in self._included},
            children={parent: tuple(edges) for parent, edges in children.items()},
        )
        for edge in headers_from(self._node.host, header, self._node.now()):
            if edge["final"] == self._node.host:  # a worker beside this server passes nothing on
                edge["children"] = {}
            sent = self._node.stream(edge["final"], edge, payload)
            self._sending = {name: out for name, out in self._sending.items() if not out.done}
            self._sending[edge["transfer"]] = sent
        if self._node.on_sent is not None:
            for worker in receivers:
                self._node.on_sent(worker, self._store.version)
        before = [self._held[worker] for worker in receivers if worker in self._held]
        self._held.update({w: self._store.version for w in receivers if w in self._held})
        if self._oldest_held in before:
            self._forget()

    def _forget(self) -> None:
        """Nobody asks what had changed before the oldest version that is held."""
        self._oldest_held = min(self._held.values(), default=self._store.version)
        self._store.forget_before(self._oldest_held)


def saved_server(shard: Shard, saved: Saved) -> tuple[NDArray[Any], int, dict[str, int]]:
    """The state of a shard's server: its model, and after that what its momentum remembers; its
    version; the last update of each worker that it holds."""
    state: tuple[NDArray[Any], int, dict[str, int]] = saved(
        shard.context.server, f"server {shard.number}"
    )
    return state


def headers_from(host: str, header: Header, now: float) -> list[Header]:
    """Headers of the streams that a model's tree asks of this host; `final` is the next hop."""
    return [
        {**header, "transfer": transfer, "final": dst, "requested_s": now}
        for transfer, dst in header["children"].get(host, ())
    ]
