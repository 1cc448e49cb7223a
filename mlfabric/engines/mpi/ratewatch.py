"""Tells whoever wants to know when the emulator has changed the rate of a link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlfabric.engines.mpi.node import Node

RATE_CHECK_S = 0.05


class RateWatch:
    """Turns changes of the emulator's current rates into calls, at every turn of a node's loop."""

    def __init__(
        self,
        node: Node,
        read: Callable[[float], Sequence[float]],
        tell: Callable[[str, float], None],
    ) -> None:
        self._node = node
        self._read = read
        self._tell = tell
        self._rates: dict[str, float] = {}
        self._next_s = 0.0

    def __call__(self) -> bool:
        now = self._node.now()
        if now >= self._next_s and self._node.begun:
            self._next_s = now + RATE_CHECK_S
            for host, rate in zip(self._node.plan.hosts, self._read(now), strict=True):
                if rate != self._rates.get(host):
                    self._rates[host] = rate
                    self._tell(host, rate)
        return False
