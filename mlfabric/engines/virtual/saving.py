"""A run on the virtual clock as bytes, to go on from exactly.

Everything is in one process, so a checkpoint is all of it between two events: hosts, messages and
flows under way, rows. What a run is told (its plan) and what trains and scores stay outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlfabric.checkpoints import whole
from mlfabric.engines.plan import Trainer
from mlfabric.engines.roles.role import Role
from mlfabric.engines.virtual.plan import VirtualPlan
from mlfabric.engines.virtual.world import OnSnapshot, World


def saved(world: World, roles: list[Role]) -> bytes:
    """All of a run, between two events."""
    from mlfabric.pickling import dumps  # an extra of the package, for checkpoints alone

    nodes = {host: node for host, node in world.nodes.items() if node.trainer is not None}
    trainers = {host: node.trainer for host, node in nodes.items() if node.trainer is not None}
    states = {host: trainers[host].state() for host, node in nodes.items() if node.loaded}
    return dumps((world, roles, states), _outside(world.plan, trainers, world.on_snapshot))


def restored(
    data: bytes, plan: VirtualPlan, trainers: Mapping[str, Trainer], on_snapshot: OnSnapshot
) -> tuple[World, list[Role]]:
    """The run that was saved, with trainers by host that take up where theirs were.

    Raises CheckpointDamaged where these bytes are not what was saved.
    """
    from mlfabric.pickling import loads

    with whole():
        world, roles, states = loads(data, _outside(plan, trainers, on_snapshot))
    for host, state in states.items():
        trainers[host].load()
        trainers[host].restore(state)
    return world, roles


def _outside(
    plan: VirtualPlan, trainers: Mapping[str, Trainer], on_snapshot: OnSnapshot
) -> dict[str, Any]:
    named = {f"trainer of {host}": trainer for host, trainer in trainers.items()}
    return {"plan": plan, "on_snapshot": on_snapshot, **named}
