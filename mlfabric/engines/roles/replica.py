"""A replica: keeps a second copy of a server's model, as its coordinator or the server says."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mlfabric.actions import CancelTransfer, CommitAtReplica
from mlfabric.engines.roles.node import Incoming
from mlfabric.engines.roles.shard import Shard
from mlfabric.events import ReplicaCommitted
from mlfabric.payload import Payload, total
from mlfabric.store import ModelStore


class Replica:
    """Applies what the server applies, in the same order.

    Copies that hosts have sent (bounded) wait until the coordinator says what is next; what the
    server forwards (chain) is applied as it comes, and the server is told.
    """

    def __init__(self, shard: Shard, model: NDArray[Any]) -> None:
        self._shard = shard
        self._store = ModelStore(model, shard.context.options.get("momentum", 0.0))
        self._arrived: dict[str, Payload] = {}
        self._cancelled: set[str] = set()
        shard.receive(("copy",), lambda stream: None, self._keep)
        shard.receive(("chain",), lambda stream: None, self._forwarded)
        shard.on("follow", self._follow)
        shard.on("discard", self._discard)
        shard.waits_for("replica", "what the server commits")
        shard.follow(self._store.model, 0)  # before the server is looked at

    def start(self) -> None:
        """It has what the server has."""

    def finish(self) -> None:
        """It ends as it is."""
        self._shard.follow(self._store.model, self._store.version, last=True)

    def _keep(self, stream: Incoming) -> None:
        transfer = stream.header["transfer"]
        if transfer not in self._cancelled:
            self._arrived[transfer] = stream.payload()

    def _follow(self, src: str, action: CommitAtReplica) -> None:
        arrived = [self._arrived.pop(transfer) for transfer in action.transfers]
        self._apply(total(arrived), len(action.updates))
        self._shard.report(ReplicaCommitted(self._store.version))

    def _forwarded(self, stream: Incoming) -> None:
        self._apply(stream.payload(), len(stream.header["updates"]))
        self._shard.send(self._shard.context.server, "replicated", self._store.version)

    def _apply(self, update: Payload, updates: int) -> None:
        self._store.apply(update, updates)
        self._store.forget_before(self._store.version)  # nobody pulls from here
        if self._shard.node.on_applied is not None:
            self._shard.node.on_applied(self._store.model, self._store.version)
        self._shard.follow(self._store.model, self._store.version)

    def _discard(self, src: str, action: CancelTransfer) -> None:
        """Throw away what has come, and what may still come of it."""
        if self._arrived.pop(action.transfer, None) is None:
            self._cancelled.add(action.transfer)
