"""Which role a host plays under a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from mlfabric import policies
from mlfabric.engines.plan import RunPlan
from mlfabric.engines.roles.allreduce import AllReduce, AllreduceWorker
from mlfabric.engines.roles.coordination import Coordination
from mlfabric.engines.roles.node import Node, Role
from mlfabric.engines.roles.server import Server
from mlfabric.engines.roles.worker import Worker
from mlfabric.view import ModelView


def coordinator_host(plan: RunPlan) -> str | None:
    """The host that runs the policy's coordinator; None under a collective policy."""
    hosts = {"scheduler": plan.scheduler, "server": plan.context.server}
    return hosts.get(policies.place(plan.policy))


def plans_transfers(plan: RunPlan) -> bool:
    """Whether a coordinator says when transfers start, and so wants to know how they come along."""
    return policies.place(plan.policy) == "scheduler"


def role_of(node: Node, model: Callable[[], NDArray[Any]]) -> Role | None:
    """Wire a host's role to its node; None where it only takes messages.

    `model()` returns a copy of the initial model that belongs to the caller.
    """
    plan, context = node.plan, node.plan.context
    policy = policies.module(plan.policy)
    collective = policies.is_collective(plan.policy)
    if node.host == coordinator_host(plan):
        Coordination(node, policy.build(context), sends_at_once=policy.SENDS_AT_ONCE)
    if node.host in context.workers:
        momentum = context.options.get("momentum", 0.0) if collective else 0.0
        view = ModelView(model(), conserved=plan.conserved, momentum=momentum)
        if collective:
            sums = policy.build(context)
            return AllreduceWorker(node, view, lambda summed: AllReduce(node, sums, summed))
        return Worker(node, view, sends_at_once=policy.SENDS_AT_ONCE)
    if node.host == context.server and not collective:
        return Server(node, model())
    return None
