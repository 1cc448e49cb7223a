"""One rank from its start to its end."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from mlfabric import policies
from mlfabric.engines.mpi.allreduce import AllreduceWorker
from mlfabric.engines.mpi.coordination import Coordination
from mlfabric.engines.mpi.monitor import Monitor
from mlfabric.engines.mpi.node import Node, boot_identity
from mlfabric.engines.mpi.part import Part
from mlfabric.engines.mpi.plan import (
    FIRST_WORKER_RANK,
    SCHEDULER_RANK,
    SERVER_RANK,
    RankPlan,
    Trainer,
)
from mlfabric.engines.mpi.records import write_atomically
from mlfabric.engines.mpi.server import Server
from mlfabric.engines.mpi.worker import Worker
from mlfabric.errors import SettingError
from mlfabric.view import ModelView

SETTLE_S = 1.0
"""Between the last rank's start and the clock's, so that starting up does not slow first steps."""


def run(plan: RankPlan, make_trainer: Callable[[int], Trainer]) -> None:
    """Play this rank's part; whatever goes wrong ends the whole job.

    `make_trainer(worker)` is called on worker ranks only, so that no other imports a framework.
    """
    comm = MPI.COMM_WORLD
    try:
        _check_size(comm, plan)
        _run(Node.of_world(plan), make_trainer)
    except BaseException:
        story = f"rank {comm.Get_rank()}: {traceback.format_exc()}"
        print(story, file=sys.stderr, flush=True)
        write_atomically(plan.run_dir / f"failure-{comm.Get_rank()}.txt", story)
        comm.Abort(1)


def _check_size(comm: MPI.Comm, plan: RankPlan) -> None:
    """A launcher of another MPI starts every process as rank 0 of 1."""
    if comm.Get_size() != len(plan.hosts):
        raise SettingError(
            f"MPI reports {comm.Get_size()} ranks where {len(plan.hosts)} were started: "
            f"mpiexec and {MPI.Get_library_version().splitlines()[0]} do not belong together"
        )


def _run(node: Node, make_trainer: Callable[[int], Trainer]) -> None:
    part = _part_of(node, make_trainer)
    _meet(node)
    if node.rank == SCHEDULER_RANK:
        quiet_until = time.monotonic() + SETTLE_S
        node.run_until(lambda: time.monotonic() > quiet_until)
        started = time.monotonic()
        node.send_all("begin", (started, boot_identity()))
        write_atomically(node.plan.run_dir / "clock_start", repr(started))
    node.run_until(lambda: node.begun)
    part.start()
    node.run_until(part.ended)
    part.finish()
    _part_ways(node)


def _part_of(node: Node, make_trainer: Callable[[int], Trainer]) -> Part:
    """Wire this rank's role to its node."""
    plan = node.plan
    policy = policies.module(plan.policy)
    collective = plan.policy in policies.COLLECTIVE
    if not collective:
        node.coordinator_rank = {"scheduler": SCHEDULER_RANK, "server": SERVER_RANK}[policy.PLACE]
        node.plans_transfers = not policy.SENDS_AT_ONCE
        if node.rank == node.coordinator_rank:
            Coordination(node, policy.build(plan.context))
    if node.rank == SCHEDULER_RANK:
        Monitor(node)
        return Part(node)
    if node.rank == SERVER_RANK:
        return Part(node) if collective else Server(node)
    index = node.rank - FIRST_WORKER_RANK
    trainer = make_trainer(index)
    trainer.warm_up()
    view = ModelView(np.load(plan.run_dir / "model0.npy"), conserved=plan.conserved)
    if collective:
        return AllreduceWorker(node, trainer, view, lambda: policy.build(plan.context, index))
    return Worker(node, trainer, view, sends_at_once=policy.SENDS_AT_ONCE)


def _meet(node: Node) -> None:
    """Open a connection between every two ranks, so that the run does not pay for that."""
    met: set[int] = set()
    node.on("hello", lambda src, body: met.add(src))
    node.send_all("hello")
    node.run_until(lambda: len(met) == node.transport.size)


def _part_ways(node: Node) -> None:
    """Wait until every rank has stopped, take back what is on its way, and end together."""
    node.transport.cut_all()
    node.send(SCHEDULER_RANK, "goodbye")
    node.run_until(lambda: node.may_go)
    node.transport.close()
    if node.counts:
        node.records.add("totals", elapsed_s=node.now(), **node.counts)
    node.records.close()
    MPI.Finalize()
