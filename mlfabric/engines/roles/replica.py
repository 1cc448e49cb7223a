"""A replica: keeps a second copy of a server's model, and serves when that is lost."""

from __future__ import annotations

from mlfabric.actions import CancelTransfer, CommitAtReplica
from mlfabric.engines.roles.names import sequence, worker_of
from mlfabric.engines.roles.node import Incoming
from mlfabric.engines.roles.role import LastingRole, Saved
from mlfabric.engines.roles.server import Server, saved_server
from mlfabric.engines.roles.shard import Shard
from mlfabric.events import ReplicaCommitted, ReplicaPromoted
from mlfabric.payload import Payload, dense, total
from mlfabric.store import ModelStore


class Replica(LastingRole):
    """Applies what the server applies, in the same order.

    Copies that hosts have sent (bounded) wait until the coordinator says what is next; what the
    server forwards (chain) is applied as it comes, and both are told.
    """

    def __init__(self, shard: Shard, store: ModelStore) -> None:
        self._shard = shard
        self._store = store
        self._included: dict[str, int] = {}
        self._arrived: dict[str, Payload] = {}
        self._cancelled: set[str] = set()
        self._server: Server | None = None
        shard.receive(("copy",), lambda stream: None, self._keep)
        shard.receive(("chain",), lambda stream: None, self._forwarded)
        shard.receive(("state",), lambda stream: None, self._synchronized)
        shard.on("follow", self._follow)
        shard.on("discard", self._discard)
        shard.on("promote", self._promote)
        shard.waits_for("replica", "what the server commits")
        shard.follow(self._store.model, 0)  # before the server is looked at, where that comes first

    def start(self) -> None:
        """It has what the server has."""
        self._shard.follow(self._store.model, self._store.version)

    def finish(self) -> None:
        """It ends as it is."""
        if self._server is not None:
            self._server.finish()
        else:
            self._shard.follow(self._store.model, self._store.version, last=True)

    @property
    def name(self) -> str:
        return f"replica {self._shard.number}"

    def state(self) -> None:
        """The server's is enough."""

    def restore(self, saved: Saved) -> None:
        values, version, included = saved_server(self._shard, saved)
        self._store.restore(dense(values), version)
        self._included.update(included)

    def _keep(self, stream: Incoming) -> None:
        transfer = stream.header["transfer"]
        if transfer not in self._cancelled:
            self._arrived[transfer] = stream.payload()

    def _follow(self, src: str, action: CommitAtReplica) -> None:
        """Apply what comes next; what the server's state has brought is there already."""
        arrived = [self._arrived.pop(transfer) for transfer in action.transfers]
        if action.version >= self._store.version:
            if arrived:
                self._apply(total(arrived), action.updates)
            else:
                self._store.skip(len(action.updates))
        self._shard.report(ReplicaCommitted(self._store.version))

    def _forwarded(self, stream: Incoming) -> None:
        if self._shard.node.stopping:  # nobody would hear that it is here
            return
        self._apply(stream.payload(), stream.header["updates"])
        self._shard.report(ReplicaCommitted(self._store.version))
        self._shard.send(self._shard.context.server, "replicated", self._store.version)

    def _synchronized(self, stream: Incoming) -> None:
        """Hold what the server held."""
        if self._server is not None:
            return
        self._store.restore(stream.payload(), stream.header["version"])
        self._included = dict(stream.header["included"])
        self._shard.report(ReplicaCommitted(self._store.version))

    def _apply(self, update: Payload, names: tuple[str, ...]) -> None:
        self._store.apply(update, len(names))
        self._store.forget_before(self._store.version)  # nobody has pulled from here
        for name in names:
            self._included[worker_of(name)] = sequence(name)
        if self._shard.node.on_applied is not None:
            self._shard.node.on_applied(self._store.model, self._store.version)
        show = self._shard.follow if self._server is None else self._shard.snapshot
        show(self._store.model, self._store.version)

    def _promote(self, src: str, host: str) -> None:
        """Serve from now on."""
        self._shard.moves(host)
        self._server = Server(self._shard, self._store, self._included)
        self._server.start()
        self._shard.report(ReplicaPromoted(self._store.version))

    def _discard(self, src: str, action: CancelTransfer) -> None:
        """Throw away what has come, and what may still come of it."""
        if self._arrived.pop(action.transfer, None) is None:
            self._cancelled.add(action.transfer)
