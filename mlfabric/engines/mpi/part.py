"""What a rank does besides moving messages."""

from __future__ import annotations

from mlfabric.engines.mpi.computing import Computation
from mlfabric.engines.mpi.node import Node


class Part:
    """The least a rank does: take part until the run stops."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def start(self) -> None:
        """The clock has started."""

    def ended(self) -> bool:
        """Whether this rank has nothing left to do."""
        return self.node.stopping

    def finish(self) -> None:
        """The run is over; the transport still works."""


class ComputingPart(Part):
    """A rank with a computation thread, which ends before the rank does."""

    computation: Computation

    def start(self) -> None:
        self.computation.start()

    def ended(self) -> bool:
        if self.node.stopping:
            self.computation.stop()
        return self.computation.ended
