"""One rank from its start to its end."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlfabric import policies
from mlfabric.engines.mpi.keeper import Keeper
from mlfabric.engines.mpi.library import LibrarySums
from mlfabric.engines.mpi.monitor import Monitor
from mlfabric.engines.mpi.node import Node, boot_identity
from mlfabric.engines.mpi.plan import SCHEDULER_RANK, RankPlan
from mlfabric.engines.mpi.records import tell_failure, write_atomically
from mlfabric.engines.mpi.saving import Leading, Saving
from mlfabric.engines.plan import Trainer
from mlfabric.engines.roles.casting import allreduce_worker, roles_of
from mlfabric.engines.roles.role import LastingRole
from mlfabric.errors import GivenUp, SchedulerLost, SettingError

SETTLE_S = 1.0
"""Between the last rank's start and the clock's, so that starting up does not slow first steps."""


def run(
    plan: RankPlan,
    make_trainer: Callable[[int], Trainer],
    model: Callable[[], NDArray[Any]] | None = None,
    attend: Callable[[Node], None] = lambda node: None,
    keeper: Keeper | None = None,
) -> None:
    """Play this rank's part; whatever goes wrong ends the whole job.

    `make_trainer(worker)` is called on worker ranks only, so that no other imports a framework.
    `model()` is the initial one, a new copy each time; None: `model0.npy` of the run's folder.
    `attend(node)` is called before anything else is. `keeper` holds connections where the run is to
    go on without ranks that die.
    """
    comm = MPI.COMM_WORLD
    try:
        _check_size(comm, plan)
        node = Node.of_world(plan)
        attend(node)
        _run(node, make_trainer, model or (lambda: _model_of(plan)), keeper)
    except GivenUp as told:
        with suppress(OSError):
            print(f"rank {comm.Get_rank()}: {told}", file=sys.stderr, flush=True)
        os._exit(0)  # no word to MPI: the others would be ended, too
    except BaseException:
        story = f"rank {comm.Get_rank()}: {traceback.format_exc()}"
        if plan.run_dir is not None:
            tell_failure(plan.run_dir, comm.Get_rank(), story)
        with suppress(OSError):
            print(story, file=sys.stderr, flush=True)
        comm.Abort(1)


def _check_size(comm: MPI.Comm, plan: RankPlan) -> None:
    """A launcher of another MPI starts every process as rank 0 of 1."""
    if comm.Get_size() != len(plan.hosts):
        raise SettingError(
            f"MPI reports {comm.Get_size()} ranks where {len(plan.hosts)} were started: "
            f"mpiexec and {MPI.Get_library_version().splitlines()[0]} do not belong together"
        )


def _model_of(plan: RankPlan) -> NDArray[Any]:
    assert plan.run_dir is not None, "the model is to be given"
    found: NDArray[Any] = np.load(plan.run_dir / "model0.npy")
    return found


def _run(
    node: Node,
    make_trainer: Callable[[int], Trainer],
    model: Callable[[], NDArray[Any]],
    keeper: Keeper | None,
) -> None:
    if node.rank == SCHEDULER_RANK:
        Monitor(node)
    worker, trainer = node.plan.worker_number.get(node.host), None
    if worker is not None:
        trainer = make_trainer(worker)
        trainer.warm_up()
        node.computes_with(trainer)
    roles = _cast(node, model)
    saving = _saving(node, roles, trainer)
    _meet(node)
    if keeper is not None:
        keeper.take_connections()
    if node.rank == SCHEDULER_RANK:
        quiet_until = time.monotonic() + SETTLE_S
        node.run_until(lambda: time.monotonic() > quiet_until)
        started = time.monotonic() - node.plan.begins_at_s
        node.send_all("begin", (started, boot_identity()))
        if node.plan.run_dir is not None:
            write_atomically(node.plan.run_dir / "clock_start", repr(started))
    node.run_until(lambda: node.begun)
    for role in roles:
        role.start()
    try:
        node.run_until(lambda: node.stopping)
    except SchedulerLost:
        if saving is not None:
            saving.save_alone()
        raise
    for role in roles:
        role.finish()
    node.run_until(lambda: node.idle)
    _part_ways(node, keeper)


def _saving(node: Node, roles: Sequence[LastingRole], trainer: Trainer | None) -> Saving | None:
    """What makes checkpoints, and takes up the one that the run goes on from."""
    if node.plan.run_dir is None:
        return None
    saving = Saving(node, roles, trainer)
    saving.restore()
    if node.rank == SCHEDULER_RANK:
        Leading(node)
    return saving


def _cast(node: Node, model: Callable[[], NDArray[Any]]) -> Sequence[LastingRole]:
    """The MPI library's own collectives are this engine's alone."""
    place, works = policies.place(node.plan.policy), node.host in node.plan.worker_number
    if place == "workers" and works:
        node.sums_densely()
    if place != "library":
        return roles_of(node, model)
    return [allreduce_worker(node, model(), lambda s: LibrarySums(node, s))] if works else []


def _meet(node: Node) -> None:
    """Open a connection between every two ranks, so that the run does not pay for that."""
    met: set[str] = set()
    node.on("hello", lambda src, body: met.add(src))
    node.send_all("hello")
    node.run_until(lambda: len(met) == node.transport.size)


def _part_ways(node: Node, keeper: Keeper | None) -> None:
    """Wait until every rank has stopped, take back what is on its way, and end together."""
    node.transport.cut_all()
    node.send(node.plan.scheduler, "goodbye")
    node.run_until(lambda: node.may_go)
    node.close()
    if keeper is not None:
        keeper.dismiss()
    if len(node.alive) == len(node.plan.hosts):
        MPI.Finalize()
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # MPI's own end would wait for those that are lost
