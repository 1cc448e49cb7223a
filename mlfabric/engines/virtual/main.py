"""One run on the virtual clock, from its start to its end."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from numpy.typing import NDArray

from mlfabric import policies
from mlfabric.engines.plan import Trainer
from mlfabric.engines.roles.casting import roles_of
from mlfabric.engines.roles.role import Role
from mlfabric.engines.virtual.collective import CollectiveFlow
from mlfabric.engines.virtual.plan import VirtualPlan
from mlfabric.engines.virtual.saving import restored, saved
from mlfabric.engines.virtual.world import OnProgress, OnSnapshot, World
from mlfabric.errors import SchedulerLost


class Saves(Protocol):
    """Keeps checkpoints of a run, and says when one is to be made."""

    @property
    def last(self) -> bytes | None:
        """What the run is to go on from; None: it begins."""

    def due(self) -> bool:
        """Asked before each event."""

    def save(self, data: bytes, elapsed_s: float) -> None:
        """Keep one; what this raises ends the run."""


def run(
    plan: VirtualPlan,
    model: NDArray[Any],
    make_trainer: Callable[[int], Trainer],
    on_snapshot: OnSnapshot,
    on_progress: OnProgress,
    saves: Saves | None = None,
) -> list[dict[str, Any]]:
    """Carry the run out; returns its rows, as ranks record them: the same plan, the same rows.

    `model` is the initial model, float32 or int32 (size,), left as it is. `on_snapshot(model,
    version, elapsed_s)` scores a snapshot and tells whether the run is to end;
    `on_progress(elapsed_s, counts)` is called now and then. With `plan.wire.nominal_bytes` no
    trainer is made, and models are empty. A run that is saved and goes on later has the rows of one
    that was never interrupted. Raises SchedulerLost where the scheduler dies; what is saved then
    goes on as if it had not.
    """
    with _rarely_collecting():
        trainers = {} if plan.wire.nominal_bytes is not None else _trainers(plan, make_trainer)
        last = None if saves is None else saves.last
        if last is None:
            world, roles = _begun(World(plan, on_snapshot), model, trainers)
        else:
            world, roles = restored(last, plan, trainers, on_snapshot)
        return _run(world, roles, on_progress, saves)


def _begun(
    world: World, model: NDArray[Any], trainers: Mapping[str, Trainer]
) -> tuple[World, list[Role]]:
    """Everything is there, and the first events are to come."""
    if world.plan.wire.nominal_bytes is not None:
        model = model[:0]
    for host, trainer in trainers.items():
        world.nodes[host].trainer = trainer
    roles = _cast(world, model)
    world.schedule_stragglers()
    for role in roles:
        role.start()
    world.look()
    return world, roles


def _run(
    world: World, roles: list[Role], on_progress: OnProgress, saves: Saves | None
) -> list[dict[str, Any]]:
    def save(saves: Saves) -> None:
        saves.save(saved(world, roles), world.agenda.now)

    def save_if_due() -> None:
        if saves is not None and saves.due():
            save(saves)

    try:
        world.run(on_progress, save_if_due if saves is not None else None)
    except SchedulerLost:
        if saves is not None:
            save(saves)
        raise
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


def _trainers(plan: VirtualPlan, make_trainer: Callable[[int], Trainer]) -> dict[str, Trainer]:
    """One a worker, by its host."""
    trainers = {host: make_trainer(worker) for worker, host in enumerate(plan.context.workers)}
    for trainer in trainers.values():
        trainer.warm_up()
    return trainers


def _cast(world: World, model: NDArray[Any]) -> list[Role]:
    """Every host's role; a collective may be one flow instead of one role a worker."""
    plan = world.plan
    if plan.collective == "flow" and hasattr(policies.module(plan.policy), "rounds"):
        return [CollectiveFlow(world, model.copy())]
    return [role for node in world.nodes.values() for role in roles_of(node, model.copy)]
