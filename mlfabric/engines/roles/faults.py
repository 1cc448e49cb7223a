"""Injects a run's faults, from the host that keeps time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlfabric.actions import StartTransfer
from mlfabric.engines.plan import Fault
from mlfabric.engines.roles.node import Node
from mlfabric.engines.roles.role import LastingRole, Saved

MIDDLE = 0.3
"""A host that sums is killed this share of a model's transfer time after its first input began."""

PATIENCE_S = 5.0
"""Where no host has begun to sum for so long, one is made to [ours]."""


class FaultInjector(LastingRole):
    """Tells hosts to die when it is time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._awaiting_sum: list[Fault] = []
        self._doomed: set[str] = set()
        node.on_lost(self._doomed.add)
        self.sum_next: Callable[[], None] | None = None

    def start(self) -> None:
        """Wait for the times of the faults."""
        for fault in self._node.plan.faults:
            self._node.wake_at(fault.at_s, partial(self._strike, fault))

    @property
    def name(self) -> str:
        return "faults"

    def state(self) -> None:
        """What has been done is recorded, and whoever plans the run's next part leaves it out."""

    def restore(self, saved: Saved) -> None:
        """So there is nothing to go on from."""

    def saw(self, action: StartTransfer, server: str) -> None:
        """A transfer is ordered: one to a host that is no server is to be summed there."""
        if self._awaiting_sum and action.dst != server and action.dst not in self._doomed:
            fault = self._awaiting_sum.pop(0)
            self._doomed.add(action.dst)
            plan = self._node.plan
            line = plan.context.line_bytes_per_s[action.dst]
            at_s = self._node.now() + MIDDLE * plan.context.model_bytes / line
            self._node.wake_at(at_s, partial(self._kill, fault, action.dst))

    def _strike(self, fault: Fault) -> None:
        """Of two faults that come to the same host, one that killed it was the last."""
        if fault.host is None:
            self._awaiting_sum.append(fault)
            self._node.wake_at(self._node.now() + PATIENCE_S, self._ask_for_a_sum)
        elif fault.host in self._doomed:
            return
        elif fault.kind == "partition":  # the emulator does it
            self._record(fault, fault.host)
        else:
            self._doomed.add(fault.host)
            self._kill(fault, fault.host)

    def _ask_for_a_sum(self) -> None:
        if self._awaiting_sum and self.sum_next is not None and not self._node.stopping:
            self.sum_next()
            self._node.wake_at(self._node.now() + PATIENCE_S, self._ask_for_a_sum)

    def _kill(self, fault: Fault, host: str) -> None:
        if not self._node.stopping:
            self._record(fault, host)
            self._node.send(host, "die")

    def _record(self, fault: Fault, host: str | None) -> None:
        now = self._node.now()
        self._node.record("fault", kind=fault.kind, host=host, at_s=now, due_s=fault.at_s)
