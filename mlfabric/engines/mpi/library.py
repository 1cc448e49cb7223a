"""The MPI library's own all-reduce: the one thing here that blocks inside MPI."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlfabric.engines.mpi.node import Node
from mlfabric.engines.roles.allreduce import record_summed
from mlfabric.payload import Payload, dense
from mlfabric.view import ModelView


class LibraryWorker:
    """Its synchronous loop: compute, tell the first worker, enter the collective when that says so.

    All enter or none does, so that no rank is left alone in a collective when the run ends: the
    first worker says "enter" only while the run goes on, and whoever hears it enters.
    """

    def __init__(self, node: Node, view: ModelView) -> None:
        self._node = node
        self._view = view
        self._workers = node.plan.context.workers
        self._worker = self._workers.index(node.host)
        ranks = [node.plan.hosts.index(host) for host in self._workers]
        world = node.transport.comm
        self._comm = world.Create_group(world.Get_group().Incl(ranks))
        self._ready: set[str] = set()
        self._iteration = 0
        self._ready_s = 0.0
        self._finished = False
        self._own: Payload | None = None
        node.on("enter", self._enter)
        if self._worker == 0:
            node.on("ready", self._one_is_ready)
            node.counts = {"version": 0, "applied": 0, "dropped": 0}

    def start(self) -> None:
        """The first snapshot, then the computation."""
        self._offer()
        self._compute()

    def finish(self) -> None:
        """The last snapshot; what is summed later counts for nothing."""
        self._offer(last=True)
        self._finished = True

    def _offer(self, *, last: bool = False) -> None:
        if self._worker == 0:
            self._node.snapshot(self._view.values, self._view.version, last=last)

    def _compute(self) -> None:
        self._node.waiting_for = f"its computation of iteration {self._iteration}"
        self._node.compute(self._iteration, self._view.values, self._computed)

    def _computed(self, iteration: int, update: Payload) -> None:
        self._own, self._ready_s = update, self._node.now()
        self._node.waiting_for = f"other workers to be ready for all-reduce {iteration}"
        self._node.send(self._workers[0], "ready")

    def _one_is_ready(self, src: str, body: Any) -> None:
        self._ready.add(src)
        if len(self._ready) == len(self._workers) and not self._node.stopping:
            self._ready.clear()
            for host in self._workers:
                self._node.send(host, "enter")

    def _enter(self, src: str, body: Any) -> None:
        assert self._own is not None
        total = self._vector(self._own)
        self._comm.Allreduce(MPI.IN_PLACE, total, MPI.SUM)
        if self._finished:
            return
        pulled = self._view.version
        self._view.summed(dense(total), len(self._workers))
        record_summed(self._node, self._worker, self._iteration, pulled, self._ready_s, self._own)
        if self._worker == 0:
            self._node.counts |= {"version": self._view.version, "applied": self._view.version}
            self._offer()
        self._iteration += 1
        self._compute()

    def _vector(self, update: Payload) -> NDArray[Any]:
        total = np.zeros(update.size, update.values.dtype)
        update.add_to(total)
        return total


def library_all_reduce(vector: NDArray[Any]) -> NDArray[Any]:
    """The sum over all ranks of the job, by the MPI library; blocks."""
    summed = np.empty_like(vector)
    MPI.COMM_WORLD.Allreduce(vector, summed, MPI.SUM)
    return summed
