"""Hosts, links and paths: what a transfer crosses on its way."""

from __future__ import annotations

from typing import Literal, NamedTuple

Direction = Literal["egress", "ingress"]


class Link(NamedTuple):
    """One direction of one host's network interface."""

    host: str
    direction: Direction


def path(src: str, dst: str) -> tuple[Link, ...]:
    """Links from `src` to `dst` through a non-blocking switch; empty when both are one host."""
    if src == dst:
        return ()
    return (Link(src, "egress"), Link(dst, "ingress"))
