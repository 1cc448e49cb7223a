"""Which roles a host plays under a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from mlfabric import policies
from mlfabric.engines.plan import RunPlan
from mlfabric.engines.roles.allreduce import AllReduce, AllreduceWorker, Summing
from mlfabric.engines.roles.coordination import Coordination
from mlfabric.engines.roles.faults import FaultInjector
from mlfabric.engines.roles.node import Node
from mlfabric.engines.roles.replica import Replica
from mlfabric.engines.roles.role import LastingRole
from mlfabric.engines.roles.server import Server
from mlfabric.engines.roles.shard import JointComputation, Shard
from mlfabric.engines.roles.worker import Worker
from mlfabric.payload import Payload, even_cuts
from mlfabric.policies.base import SumsOnDemand
from mlfabric.store import ModelStore
from mlfabric.view import ModelView


def coordinator_hosts(plan: RunPlan) -> tuple[str, ...]:
    """The host of every shard's coordinator; none under a collective policy."""
    match policies.place(plan.policy):
        case "scheduler":
            return (plan.scheduler,) * len(plan.servers)
        case "server":
            return plan.servers
        case _:
            return ()


def plans_transfers(plan: RunPlan) -> bool:
    """Whether a coordinator says when transfers start, and so wants to know how they come along."""
    return policies.place(plan.policy) == "scheduler"


def roles_of(node: Node, model: Callable[[], NDArray[Any]]) -> list[LastingRole]:
    """Wire a host's roles to its node; none where it only takes messages.

    `model()` returns a copy of the initial model that belongs to the caller.
    """
    if not policies.is_collective(node.plan.policy):
        injector = _injector(node)
        own = [*_servers(node, model, injector), *_replicas(node, model), *_workers(node, model)]
        return own if injector is None else [*own, injector]
    if node.host not in node.plan.worker_number:
        return []
    sums = policies.module(node.plan.policy).build(node.plan.context)
    return [allreduce_worker(node, model(), lambda summed: AllReduce(node, sums, summed))]


def allreduce_worker(
    node: Node, model: NDArray[Any], sums: Callable[[Callable[[Payload], None]], Summing]
) -> LastingRole:
    """A worker that adds `sums` up to its model, with the policy's momentum."""
    momentum = node.plan.context.options.get("momentum", 0.0)
    view = ModelView(model, conserved=node.plan.conserved, momentum=momentum)
    return AllreduceWorker(node, view, sums)


def _injector(node: Node) -> FaultInjector | None:
    """Faults come from the host that keeps time."""
    injects = node.plan.faults and node.host == node.plan.scheduler
    return FaultInjector(node) if injects else None


def _servers(
    node: Node, model: Callable[[], NDArray[Any]], injector: FaultInjector | None
) -> list[LastingRole]:
    """The coordinators on this host, and the shards that it serves."""
    plan, policy = node.plan, policies.module(node.plan.policy)
    found: list[LastingRole] = []
    for number, host in enumerate(coordinator_hosts(plan)):
        shard = Shard(node, number)
        if node.host == host:
            coordinator = policy.build(shard.context)
            watch = None if injector is None else injector.saw
            if injector is not None and isinstance(coordinator, SumsOnDemand):
                injector.sum_next = coordinator.sum_next
            at_once = policy.SENDS_AT_ONCE
            found.append(Coordination(shard, coordinator, sends_at_once=at_once, watch=watch))
        if shard.serves_here:
            whole = model()
            begin, end = even_cuts(0, len(whole), len(plan.servers))[number]
            found.append(Server(shard, _store(shard, whole[begin:end].copy())))
    return found


def _replicas(node: Node, model: Callable[[], NDArray[Any]]) -> list[LastingRole]:
    replication = node.plan.context.replication
    if replication is None or node.host != replication.host:
        return []
    shard = Shard(node, 0)
    return [Replica(shard, _store(shard, model()))]


def _store(shard: Shard, model: NDArray[Any]) -> ModelStore:
    return ModelStore(model, shard.context.options.get("momentum", 0.0))


def _workers(node: Node, model: Callable[[], NDArray[Any]]) -> list[LastingRole]:
    """The worker on this host: a loop for every shard."""
    plan, policy = node.plan, policies.module(node.plan.policy)
    if node.host not in plan.worker_number:
        return []
    whole = model()
    cuts = even_cuts(0, len(whole), len(plan.servers))
    joint = JointComputation(node, whole, cuts)
    return [
        Worker(
            Shard(node, number),
            ModelView(whole[begin:end], conserved=plan.conserved),
            joint,
            sends_at_once=policy.SENDS_AT_ONCE,
        )
        for number, (begin, end) in enumerate(cuts)
    ]
