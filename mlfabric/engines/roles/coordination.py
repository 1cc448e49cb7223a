"""Runs a policy's coordinator on its host: messages become events, actions become messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from mlfabric.actions import (
    Action,
    CancelTransfer,
    CommitAtReplica,
    CommitGroup,
    CopyGroup,
    DistributeModel,
    DropUpdate,
    Probe,
    PromoteReplica,
    StartTransfer,
    SynchronizeReplica,
    WakeAt,
)
from mlfabric.engines.roles.holding import GO_ON, HOLD, HOLDING
from mlfabric.engines.roles.names import sequence
from mlfabric.engines.roles.role import LastingRole, Saved
from mlfabric.engines.roles.shard import Shard
from mlfabric.events import (
    Event,
    HostLost,
    RateMeasured,
    ReplicaCommitted,
    ReplicaPromoted,
    Update,
    UpdateReady,
    Woken,
)
from mlfabric.policies.base import Coordinator


class Coordination(LastingRole):
    """The coordinator's hands and ears; also records what became of every update."""

    def __init__(
        self,
        shard: Shard,
        coordinator: Coordinator,
        *,
        sends_at_once: bool,
        watch: Callable[[StartTransfer, str], None] | None = None,
    ) -> None:
        self._shard = shard
        self._node = node = shard.node
        self._sends_at_once = sends_at_once
        self._watch = watch
        self._coordinator = coordinator
        self._open: dict[str, Update] = {}
        replication = shard.context.replication
        self._replica = None if replication is None else replication.host
        self._chained = replication is not None and replication.kind == "chain"
        self._forwarded: deque[CommitGroup] = deque()
        self._lost_s: float | None = None
        self._held_back: list[Event] | None = None
        self._holds = False
        self._number = {worker: n for n, worker in enumerate(shard.context.workers)}
        self._tally = shard.tally()
        shard.waits_for("coordinator", "events from workers and server")
        shard.on("event", self._on_event)
        shard.on(HOLD, lambda src, body: self._hold())
        shard.on(GO_ON, lambda src, body: self._go_on())
        shard.watch_server()
        node.on_lost(self._on_lost)
        if coordinator.reads_rates:
            node.watch_rates(self._rate_changed)

    @property
    def name(self) -> str:
        return f"coordinator {self._shard.number}"

    def state(self) -> Any:
        """What it has counted, and so the version; what was not applied yet is forgotten."""
        return dict(self._tally), self._coordinator.memory()

    def restore(self, saved: Saved) -> None:
        tally, memory = saved(self._node.host, self.name)
        self._tally.update(tally)
        self._coordinator.begin_at(self._tally["version"], memory)

    def _hold(self) -> None:
        """Handle nothing that is news, once the replica has what it was forwarded."""
        self._held_back, self._holds = [], False
        self._tell_that_it_holds()

    def _tell_that_it_holds(self) -> None:
        if self._held_back is not None and not self._forwarded and not self._holds:
            self._holds = True
            self._node.send(self._node.plan.scheduler, HOLDING, 0)

    def _go_on(self) -> None:
        held_back, self._held_back = self._held_back or [], None
        for event in held_back:
            self._handle(event)

    def _on_event(self, src: str, event: Event) -> None:
        if isinstance(event, UpdateReady):
            self._open[event.update.id] = event.update
        if self._chained and isinstance(event, ReplicaCommitted):
            self._resolve_forwarded(event.version)  # the server applies it, even as the run ends
            self._tell_that_it_holds()
            return
        if self._held_back is None:
            self._handle(event)
        else:
            self._held_back.append(event)

    def _handle(self, event: Event) -> None:
        if self._node.stopping:
            return
        match event:
            case ReplicaPromoted(version) if self._chained:
                self._resolve_forwarded(version)
                self._drop_forwarded()
        for action in self._coordinator.handle(event, self._node.now()):
            self._perform(action)

    def _on_lost(self, host: str) -> None:
        now = self._node.now()
        if self._lost_s is None:
            self._lost_s = now
        self._shard.record("loss", host=host, elapsed_s=now)
        if host == self._replica and self._chained:  # the server applies what it has, alone
            self._resolve_forwarded(None)
            self._chained = False
        self._on_event(self._node.host, HostLost(host))

    def _resolve_forwarded(self, version: int | None) -> None:
        """The replica has all up to this version: so much is safe. None: nothing is waited for."""
        while self._forwarded:
            commit = self._forwarded[0]
            if version is not None and commit.version + len(commit.updates) > version:
                return
            self._forwarded.popleft()
            self._resolve_commit(commit)

    def _drop_forwarded(self) -> None:
        """What the lost server has not got through to the replica was never applied."""
        self._chained = False
        while self._forwarded:
            commit = self._forwarded.popleft()
            for update, delay in zip(commit.updates, commit.delays, strict=True):
                self._resolve(update, None, delay)

    def _resolve_commit(self, commit: CommitGroup) -> None:
        for update, delay in zip(commit.updates, commit.delays, strict=True):
            self._resolve(update, commit.version, delay)
        self._tally["version"] = commit.version + len(commit.updates)

    def _perform(self, action: Action) -> None:
        node, shard, server = self._node, self._shard, self._shard.context.server
        match action:
            case StartTransfer():
                shard.send(action.src, "start", action)
                if self._watch is not None:
                    self._watch(action, server)
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
                if self._chained:
                    self._forwarded.append(action)
                else:
                    self._resolve_commit(action)
                self._promise(action)
                self._note_recovery()
            case CopyGroup():
                shard.send(action.src, "copy", action)
            case CommitAtReplica():
                assert self._replica is not None
                shard.send(self._replica, "follow", action)
                if not action.transfers:
                    shard.record("lost", updates=list(action.updates), elapsed_s=node.now())
            case SynchronizeReplica():
                shard.send(server, "synchronize", action)
            case PromoteReplica():
                for host in node.plan.hosts:
                    shard.send(host, "promote", action.host)
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

    def _note_recovery(self) -> None:
        """The first commit after a loss: the run goes on."""
        if self._lost_s is not None:
            self._shard.record("recovery", lost_s=self._lost_s, elapsed_s=self._node.now())
            self._lost_s = None

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
