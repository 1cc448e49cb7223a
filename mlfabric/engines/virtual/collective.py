"""A synchronous sum over all workers, worked out at once instead of message by message.

A ring over a thousand hosts is two million messages an operation. When a message begins and ends
follows from the one before it on the same link and the one that it waits for, so a whole round is
two maxima and a sum over all workers, and is as fast as its slowest link. The engine takes this
shortcut for every collective policy (`collective="flow"`); tests hold it against the messages.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlfabric import policies
from mlfabric.engines.roles.allreduce import record_summed
from mlfabric.engines.roles.role import Role
from mlfabric.engines.tallies import new_tally
from mlfabric.engines.virtual.node import VirtualNode
from mlfabric.engines.virtual.pace import Pace
from mlfabric.engines.virtual.world import World
from mlfabric.payload import Payload, total
from mlfabric.policies.base import Rounds
from mlfabric.view import ModelView

Floats = NDArray[np.float64]


class CollectiveFlow(Role):
    """All workers' synchronous loops at once; they share one view, as all hold the same model."""

    def __init__(self, world: World, model: NDArray[Any]) -> None:
        self._world = world
        self._policy = policies.module(world.plan.policy)
        self._workers = [world.nodes[host] for host in world.plan.context.workers]
        momentum = world.plan.context.options.get("momentum", 0.0)
        self._view = ModelView(model, conserved=world.plan.conserved, momentum=momentum)
        self._paths = _ring_paths(world)
        self._pace = Pace(world.plan, self._paths)
        self._free_s = np.zeros(len(self._workers))
        self._updates: dict[int, tuple[Payload, float]] = {}
        self._summing: dict[int, tuple[int, Payload, float]] = {}
        self._sending: dict[int, tuple[float, float, float]] = {}
        self._first.tallies[0] = new_tally()

    def start(self) -> None:
        """The first snapshot, then the first computations."""
        self._offer()
        for worker in range(len(self._workers)):
            self._compute(worker, 0)

    def finish(self) -> None:
        """The last snapshot, and what was under way."""
        self._offer(last=True)
        for worker in sorted(self._sending):
            iteration, update, ready_s = self._summing[worker]
            if self._view.version > len(self._workers) * iteration:
                self._record_summed(worker, iteration, update, ready_s)
            self._record_sending(worker)

    @property
    def _first(self) -> VirtualNode:
        return self._workers[0]

    def _offer(self, *, last: bool = False) -> None:
        self._first.snapshot(self._view.values, self._view.version, last=last)

    def _compute(self, worker: int, iteration: int) -> None:
        done = partial(self._ready, worker)
        self._workers[worker].compute(iteration, self._view.values, done)

    def _ready(self, worker: int, iteration: int, update: Payload) -> None:
        self._updates[worker] = (update, self._world.agenda.now)
        if len(self._updates) == len(self._workers):
            self._sum(iteration)

    def _sum(self, iteration: int) -> None:
        """All are ready: work out when each worker has the sum."""
        plan = self._world.plan
        updates = [self._updates[worker] for worker in range(len(self._workers))]
        self._updates = {}
        payloads = [update for update, _ in updates]
        rounds = self._policy.rounds(payloads, plan.wire.bytes, plan.context.chunk_bytes)
        ready_s = np.array([ready for _, ready in updates])
        summed = total(payloads)
        for worker, at_s in enumerate(self._ends(ready_s, rounds).tolist()):
            self._sending[worker] = (ready_s[worker].item(), at_s, rounds.bytes)
            self._summing[worker] = (iteration, *updates[worker])
            self._world.agenda.at(at_s, self._take, worker, summed)

    def _ends(self, ready_s: Floats, rounds: Rounds) -> Floats:
        """When each worker has received everything; messages of one connection keep their order."""
        plan = self._world.plan
        latency_s = plan.hop_s * np.array([len(path) for path in self._paths])
        has_s = [ready_s] * rounds.lanes
        last_s = ready_s
        for message_bytes in rounds.message_bytes:
            for lane in range(rounds.lanes):
                begin_s = np.maximum(self._free_s, has_s[lane] + plan.startup_s)
                self._free_s = self._pace.ends(begin_s, message_bytes)
                has_s[lane] = np.roll(self._free_s + latency_s, 1)
                last_s = np.maximum(last_s, has_s[lane])
        return last_s

    def _take(self, worker: int, summed: Payload) -> None:
        """A worker has the sum; the first one puts it into the view that all share."""
        n, (iteration, update, ready_s) = len(self._workers), self._summing[worker]
        if self._view.version == n * iteration:
            self._view.summed(summed, n)
        self._record_summed(worker, iteration, update, ready_s)
        self._record_sending(worker)
        if worker == 0:
            self._first.tallies[0] |= {"version": self._view.version, "applied": self._view.version}
            self._offer()
        self._compute(worker, iteration + 1)

    def _record_summed(self, worker: int, iteration: int, update: Payload, ready_s: float) -> None:
        pulled = len(self._workers) * iteration
        record_summed(self._workers[worker], worker, iteration, pulled, ready_s, update)

    def _record_sending(self, worker: int) -> None:
        """A row: all that a worker has sent to the next one of the ring for a sum, so far."""
        begun_s, end_s, n_bytes = self._sending.pop(worker)
        node, following = self._workers[worker], self._workers[(worker + 1) % len(self._workers)]
        now = node.now()
        share = 1.0 if now >= end_s else (now - begun_s) / (end_s - begun_s)
        node.record(
            "transfer",
            kind="share",
            shard=0,
            updates=(),
            src=node.host,
            dst=following.host,
            next_hop=following.host,
            bytes=round(share * n_bytes),
            complete=now >= end_s,
            requested_s=begun_s,
            started_s=begun_s,
            ended_s=now,
        )


def _ring_paths(world: World) -> list[tuple[Any, ...]]:
    """The links from every worker to the next one."""
    hosts = world.plan.context.workers
    hops = zip(hosts, hosts[1:] + hosts[:1], strict=True)
    return [world.streams.path(src, dst) for src, dst in hops]
