"""The MPI library's own all-reduce: the one thing here that blocks inside MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlfabric.engines.mpi.node import Node
from mlfabric.payload import Payload, dense


class LibrarySums:
    """One worker's side of one sum over all workers after another; `summed(sum)` is told each.

    All enter the collective or none does, so that no rank is left alone in it when the run ends:
    the first worker says "enter" only while the run goes on, and whoever hears it enters.
    """

    def __init__(self, node: Node, summed: Callable[[Payload], None]) -> None:
        self._node = node
        self._summed = summed
        self._workers = node.plan.context.workers
        ranks = [node.plan.hosts.index(host) for host in self._workers]
        world = node.transport.comm
        self._comm = world.Create_group(world.Get_group().Incl(ranks))
        self._ready: set[str] = set()
        self._own: Payload | None = None
        node.on("enter", self._enter)
        if node.host == self._workers[0]:
            node.on("ready", self._one_is_ready)

    def start(self, update: Payload) -> None:
        """Begin the next operation; the one before has ended."""
        self._own = update
        self._node.waits["worker"] = "other workers to be ready for the next all-reduce"
        self._node.send(self._workers[0], "ready")

    def _one_is_ready(self, src: str, body: Any) -> None:
        self._ready.add(src)
        if len(self._ready) == len(self._workers) and not self._node.stopping:
            self._ready.clear()
            for host in self._workers:
                self._node.send(host, "enter")

    def _enter(self, src: str, body: Any) -> None:
        assert self._own is not None
        total = np.zeros(self._own.size, self._own.values.dtype)
        self._own.add_to(total)
        self._comm.Allreduce(MPI.IN_PLACE, total, MPI.SUM)
        self._summed(dense(total))


def library_all_reduce(vector: NDArray[Any]) -> NDArray[Any]:
    """The sum over all ranks of the job, by the MPI library; blocks."""
    summed = np.empty_like(vector)
    MPI.COMM_WORLD.Allreduce(vector, summed, MPI.SUM)
    return summed
