"""Runs a policy's coordinator on its host: messages become events, actions become messages."""

from __future__ import annotations

from mlfabric.actions import (
    Action,
    CancelTransfer,
    CommitAtReplica,
    CommitGroup,
    CopyGroup,
    DistributeModel,
    DropUpdate,
    Probe,
    StartTransfer,
    WakeAt,
)
from mlfabric.engines.roles.names import sequence
from mlfabric.engines.roles.shard import Shard
from mlfabric.events import Event, RateMeasured, Update, UpdateReady, Woken
from mlfabric.policies.base import Coordinator


class Coordination:
    """The coordinator's hands and ears; also records what became of every update."""

    def __init__(self, shard: Shard, coordinator: Coordinator, *, sends_at_once: bool) -> None:
        self._shard = shard
        self._node = node = shard.node
        self._sends_at_once = sends_at_once
        self._coordinator = coordinator
        self._open: dict[str, Update] = {}
        replication = shard.context.replication
        self._replica = None if replication is None else replication.host
        self._number = {worker: n for n, worker in enumerate(shard.context.workers)}
        self._tally = shard.tally()
        shard.waits_for("coordinator", "events from workers and server")
        shard.on("event", self._on_event)
        if coordinator.reads_rates:
            node.watch_rates(self._rate_changed)

    def _on_event(self, src: str, event: Event) -> None:
        if isinstance(event, UpdateReady):
            self._open[event.update.id] = event.update
        if self._node.stopping:
            return
        for action in self._coordinator.handle(event, self._node.now()):
            self._perform(action)

    def _perform(self, action: Action) -> None:
        node, shard, server = self._node, self._shard, self._shard.context.server
        match action:
            case StartTransfer():
                shard.send(action.src, "start", action)
            case CancelTransfer():
                shard.send(action.src, "cancel", action)
                stored = action.dst in (server, self._replica)
                shard.send(action.dst, "discard" if stored else "cancel", action)
            case DropUpdate():
                if self._sends_at_once:  # it has come, under its own name
                    gone = CancelTransfer(action.update, action.worker, server)
                    shard.send(server, "discard", gone)
                self._resolve(action.update, None, action.delay)
            case CommitGroup():
                shard.send(server, "commit", action)
                for update, delay in zip(action.updates, action.delays, strict=True):
                    self._resolve(update, action.version, delay)
                self._tally["version"] = action.version + len(action.updates)
                self._promise(action)
            case CopyGroup():
                shard.send(action.src, "copy", action)
            case CommitAtReplica():
                assert self._replica is not None
                shard.send(self._replica, "follow", action)
            case DistributeModel():
                shard.send(server, "distribute", action)
            case Probe():
                shard.send(action.src, "probe", action)
            case WakeAt():
                node.wake_at(action.at_s, lambda: self._on_event(node.host, Woken()))

    def _resolve(self, update_id: str, version: int | None, delay: int) -> None:
        """Tell the worker what became of its update, and record it."""
        update = self._open.pop(update_id)
        node, applied = self._node, version is not None
        status = "applied" if applied else "dropped"
        self._tally[status] += 1
        self._shard.send(update.worker, "resolved", (update_id, applied))
        self._shard.record(
            "update",
            id=update_id,
            worker=self._number[update.worker],
            iteration=sequence(update_id),
            version_pulled=update.version,
            version_applied=version,
            status=status,
            delay=delay,
            ready_s=update.ready_s,
            resolved_s=node.now(),
            norm=update.norm,
            push_bytes=update.bytes,
        )

    def _promise(self, commit: CommitGroup) -> None:
        """Record within what the replica is bound to be now."""
        if commit.divergence is not None:
            promised, bound = commit.divergence
            self._shard.record(
                "promise",
                elapsed_s=self._node.now(),
                version=commit.version + len(commit.updates),
                promised=promised,
                bound=bound,
            )

    def _rate_changed(self, host: str, bytes_per_s: float) -> None:
        if host == self._shard.context.server or host in self._number:
            self._on_event(self._node.host, RateMeasured(host, bytes_per_s))
