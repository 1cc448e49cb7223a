"""One run on the virtual clock, from its start to its end."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from mlfabric import policies
from mlfabric.engines.plan import Trainer
from mlfabric.engines.roles.casting import roles_of
from mlfabric.engines.roles.node import Role
from mlfabric.engines.virtual.collective import CollectiveFlow
from mlfabric.engines.virtual.plan import VirtualPlan
from mlfabric.engines.virtual.world import OnProgress, OnSnapshot, World


def run(
    plan: VirtualPlan,
    model: NDArray[Any],
    make_trainer: Callable[[int], Trainer],
    on_snapshot: OnSnapshot,
    on_progress: OnProgress,
) -> list[dict[str, Any]]:
    """Carry the run out; returns its rows, as ranks record them: the same plan, the same rows.

    `model` is the initial model, float32 or int32 (size,), left as it is. `on_snapshot(model,
    version, elapsed_s)` scores a snapshot and tells whether the run is to end;
    `on_progress(elapsed_s, counts)` is called now and then. With `plan.wire.nominal_bytes` no
    trainer is made, and models are empty.
    """
    with _rarely_collecting():
        return _run(World(plan, on_snapshot), model, make_trainer, on_progress)


def _run(
    world: World,
    model: NDArray[Any],
    make_trainer: Callable[[int], Trainer],
    on_progress: OnProgress,
) -> list[dict[str, Any]]:
    if world.plan.wire.nominal_bytes is not None:
        model = model[:0]
    else:
        _make_trainers(world, make_trainer)
    roles = _cast(world, model)
    world.schedule_stragglers()
    for role in roles:
        role.start()
    world.look()
    world.run(on_progress)
    for role in roles:
        role.finish()
    world.streams.cut_all()
    for shard, tally in sorted(world.tallies().items()):
        applied = world.versions[shard]
        world.nodes[world.plan.scheduler].record(
            "totals",
            shard=shard,
            shards=len(world.plan.servers),
            elapsed_s=world.agenda.now,
            **{**tally, "version": applied, "applied": applied},
        )
    return world.rows


@contextmanager
def _rarely_collecting() -> Iterator[None]:
    """Rows are many and live long: going through them for cycles takes a third of the time."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _make_trainers(world: World, make_trainer: Callable[[int], Trainer]) -> None:
    for worker, host in enumerate(world.plan.context.workers):
        trainer = make_trainer(worker)
        trainer.warm_up()
        world.nodes[host].trainer = trainer


def _cast(world: World, model: NDArray[Any]) -> list[Role]:
    """Every host's role; a collective may be one flow instead of one role a worker."""
    plan = world.plan
    if plan.collective == "flow" and hasattr(policies.module(plan.policy), "rounds"):
        return [CollectiveFlow(world, model.copy())]
    return [role for node in world.nodes.values() for role in roles_of(node, model.copy)]
