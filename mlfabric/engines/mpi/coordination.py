"""Runs a policy's coordinator on this rank: messages become events, actions become messages."""

from __future__ import annotations

import heapq

from mlfabric.actions import (
    Action,
    CancelTransfer,
    CommitGroup,
    DistributeModel,
    DropUpdate,
    StartTransfer,
    WakeAt,
)
from mlfabric.engines.mpi.node import Node
from mlfabric.engines.mpi.plan import SERVER_RANK
from mlfabric.events import Event, RateMeasured, Update, UpdateReady, Woken
from mlfabric.policies.base import Coordinator

RATE_CHECK_S = 0.05


class Coordination:
    """The coordinator's hands and ears; also records what became of every update."""

    def __init__(self, node: Node, coordinator: Coordinator) -> None:
        self._node = node
        self._coordinator = coordinator
        self._open: dict[str, Update] = {}
        self._alarms: list[float] = []
        self._rates: tuple[float, ...] = ()
        self._next_rate_check = 0.0
        node.counts = {"version": 0, "applied": 0, "dropped": 0}
        node.waiting_for = "events from workers and server"
        node.on("event", self._on_event)
        node.every_turn(self._ring_alarms)
        if coordinator.reads_rates:
            node.every_turn(self._read_rates)

    def _on_event(self, src: int, event: Event) -> None:
        if isinstance(event, UpdateReady):
            self._open[event.update.id] = event.update
        if self._node.stopping:
            return
        for action in self._coordinator.handle(event, self._node.now()):
            self._perform(action)

    def _perform(self, action: Action) -> None:
        node, rank_of = self._node, self._node.plan.rank_of
        match action:
            case StartTransfer():
                node.send(rank_of(action.src), "start", action)
            case CancelTransfer():
                node.send(rank_of(action.src), "cancel", action)
                node.send(rank_of(action.dst), "cancel", action)
            case DropUpdate():
                self._resolve(action.update, None, action.delay)
            case CommitGroup():
                node.send(SERVER_RANK, "commit", action)
                for update, delay in zip(action.updates, action.delays, strict=True):
                    self._resolve(update, action.version, delay)
                node.counts["version"] = action.version + len(action.updates)
            case DistributeModel():
                node.send(SERVER_RANK, "distribute", action)
            case WakeAt():
                heapq.heappush(self._alarms, action.at_s)

    def _resolve(self, update_id: str, version: int | None, delay: int) -> None:
        """Tell the worker what became of its update, and record it."""
        update = self._open.pop(update_id)
        node, applied = self._node, version is not None
        status = "applied" if applied else "dropped"
        node.counts[status] += 1
        node.send(node.plan.rank_of(update.worker), "resolved", (update_id, applied))
        node.records.add(
            "update",
            id=update_id,
            worker=node.plan.context.workers.index(update.worker),
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

    def _ring_alarms(self) -> bool:
        rang = False
        while self._alarms and self._alarms[0] <= self._node.now():
            heapq.heappop(self._alarms)
            self._on_event(self._node.rank, Woken())
            rang = True
        return rang

    def _read_rates(self) -> bool:
        """Turn changes of the emulator's current rates into events."""
        now = self._node.now()
        if now < self._next_rate_check or not self._node.begun:
            return False
        self._next_rate_check = now + RATE_CHECK_S
        assert self._node.plan.read_rates is not None
        rates = tuple(self._node.plan.read_rates())
        old = self._rates or (None,) * len(rates)
        self._rates = rates
        for host, before, rate in zip(self._node.plan.hosts, old, rates, strict=True):
            if rate != before and host in (self._node.plan.hosts[SERVER_RANK], *self._workers()):
                self._on_event(self._node.rank, RateMeasured(host, rate))
        return False

    def _workers(self) -> tuple[str, ...]:
        return self._node.plan.context.workers


def update_id(worker: str, iteration: int) -> str:
    """Name of a worker's update; also tells whose it is and which one."""
    return f"{worker}:{iteration}"


def sequence(name: str) -> int:
    """The iteration in an update's name."""
    return int(name.rpartition(":")[2])


def worker_of(name: str) -> str:
    """The worker in an update's name."""
    return name.rpartition(":")[0]
