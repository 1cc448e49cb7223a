"""Hosts, links and paths: what a transfer crosses on its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

Direction = Literal["egress", "ingress", "up", "down"]


class Link(NamedTuple):
    """One direction of a host's interface (egress, ingress) or of a rack's uplink (up, down)."""

    host: str
    direction: Direction


@dataclass(frozen=True)
class Topology:
    """A tree of switches below a non-blocking core.

    `above` names the switch over a host or over another switch (host → rack, rack → pod, …); what
    it leaves out is attached to the core itself.
    """

    above: Mapping[str, str] = field(default_factory=dict)

    def climb(self, host: str) -> tuple[str, ...]:
        """The host and every switch over it, below the core."""
        nodes = [host]
        while nodes[-1] in self.above:
            nodes.append(self.above[nodes[-1]])
        return tuple(nodes)

    def path(self, src: str, dst: str) -> tuple[Link, ...]:
        """Links from `src` up to the lowest common switch and down to `dst`; none on one host."""
        if not self.above and src != dst:  # the same as below, without climbing
            return _interface(src, "egress"), _interface(dst, "ingress")
        up, down = self.climb(src), self.climb(dst)
        while up and down and up[-1] == down[-1]:
            up, down = up[:-1], down[:-1]
        rising = tuple(Link(node, "up" if node != src else "egress") for node in up)
        falling = tuple(Link(node, "down" if node != dst else "ingress") for node in down)
        return (*rising, *reversed(falling))


_interface = cache(Link)

BIG_SWITCH = Topology()
"""Every host is attached to one non-blocking switch."""
