"""Hosts that die, or are cut off for a while, on the virtual clock."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from mlfabric.engines.plan import Fault
from mlfabric.engines.virtual.agenda import Agenda
from mlfabric.engines.virtual.node import VirtualNode
from mlfabric.engines.virtual.streams import Streams
from mlfabric.errors import SchedulerLost


class Losses:
    """Which hosts are gone; the others learn of it `lost_after_s` later.

    A host that is cut off for longer than that is held for lost, and so is dead to all: it must not
    come back with what has been given up. Without the scheduler no host can go on: SchedulerLost is
    raised as it dies, before anything else happens.
    """

    def __init__(
        self,
        agenda: Agenda,
        nodes: Mapping[str, VirtualNode],
        streams: Streams,
        lost_after_s: float,
        scheduler: str,
    ) -> None:
        self.dead: set[str] = set()
        self._agenda = agenda
        self._nodes = nodes
        self._streams = streams
        self._lost_after_s = lost_after_s
        self._scheduler = scheduler
        self._cut_off_until: dict[str, float] = {}
        for host, node in nodes.items():
            node.on("die", partial(self._die, host))

    def schedule(self, fault: Fault) -> None:
        """Messages of a host that is cut off wait; the trace of rates holds up its transfers."""
        if fault.kind == "partition" and fault.host is not None:
            self._agenda.watch(fault.at_s, self._cut_off, fault.host, fault.duration_s)

    def _die(self, host: str, src: str, body: Any) -> None:
        self.kill(host)

    def kill(self, host: str) -> None:
        """It does nothing any more, and what it sends or is sent comes to nothing."""
        if host not in self.dead:
            self._bury(host)
            self._agenda.after(self._lost_after_s, self._declare, host)

    def parted(self, src: str, dst: str) -> bool:
        """Whether a message between these is lost."""
        return src in self.dead or dst in self.dead

    def held_up_s(self, src: str, dst: str) -> float:
        """How long a message has to wait before it sets out."""
        ends = [self._cut_off_until.get(host, 0.0) for host in (src, dst)] if src != dst else [0.0]
        return max(max(ends) - self._agenda.now, 0.0)

    def _cut_off(self, host: str, duration_s: float) -> None:
        self._cut_off_until[host] = self._agenda.now + duration_s
        if duration_s > self._lost_after_s:
            self._agenda.after(self._lost_after_s, self._give_up, host)

    def _give_up(self, host: str) -> None:
        if host not in self.dead:
            self._bury(host)
            self._declare(host)

    def _bury(self, host: str) -> None:
        if host == self._scheduler:
            raise SchedulerLost(f"{host} was lost: nobody plans or keeps time")
        self.dead.add(host)
        self._streams.lose(host)

    def _declare(self, host: str) -> None:
        for name, node in self._nodes.items():
            if name not in self.dead:
                node.told_lost(host)
