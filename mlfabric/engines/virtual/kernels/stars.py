"""Full links whose flows meet on no other: all on one are settled at once, in a few passes."""

from __future__ import annotations

import numpy as np

from mlfabric.compiled import inner
from mlfabric.engines.virtual.kernels.net import (
    BEHIND,
    CAP,
    CAPACITY,
    CHANGE,
    CROSSED,
    ENTRY_FLOW,
    HEAD,
    INPUTS,
    LATER,
    LINK,
    NEXT,
    PATH,
    PICKED,
    RATE,
    TOUCHED,
    USED,
    WEIGHT,
    Net,
    bring,
    expect_end,
    lone,
)


@inner
def _only_here(net: Net, flow: int, link: int) -> bool:
    """Whether a flow meets others on `link` alone; notes its cap by its other links."""
    if net.tag[INPUTS, flow] >= 0 or net.tag[BEHIND, flow] >= 0:
        return False
    cap, entry = np.inf, net.tag[PATH, flow]
    while entry >= 0:
        other = net.entry[LINK, entry]
        if other != link:
            if not lone(net, other):
                return False
            cap = min(cap, net.link[CAPACITY, other])
        entry = net.entry[NEXT, entry]
    net.flow[CAP, flow] = cap
    return True


@inner
def _is_star(net: Net, link: int) -> bool:
    entry = net.row[HEAD, link]
    while entry >= 0:
        if not _only_here(net, net.entry[ENTRY_FLOW, entry], link):
            return False
        entry = net.entry[LATER, entry]
    return True


@inner
def _level(net: Net, link: int) -> float:
    """Bytes/s to a weight of one, with which the link is full, or all there are at their caps."""
    level, capped, before = 0.0, -1, -2
    while capped > before:
        before, capped = capped, 0
        free, weights, entry = net.link[CAPACITY, link], 0.0, net.row[HEAD, link]
        while entry >= 0:
            flow = net.entry[ENTRY_FLOW, entry]
            if net.flow[CAP, flow] < level * net.flow[WEIGHT, flow]:
                free -= net.flow[CAP, flow]
                capped += 1
            else:
                weights += net.flow[WEIGHT, flow]
            entry = net.entry[LATER, entry]
        level = max(free, 0.0) / weights if weights > 0 else np.inf
    return level


@inner
def settle_star(net: Net, link: int, now: float) -> bool:
    """Rates and times of all flows on a link, if they meet nowhere else: those are final, so that
    none is picked (again), and the link is as if not crossed."""
    if not _is_star(net, link):
        return False
    level, used, entry = _level(net, link), 0.0, net.row[HEAD, link]
    while entry >= 0:
        flow = net.entry[ENTRY_FLOW, entry]
        bring(net, flow, now)
        net.flow[RATE, flow] = min(level * net.flow[WEIGHT, flow], net.flow[CAP, flow])
        expect_end(net, flow, now)
        net.tag[PICKED, flow] = -net.state[CHANGE]
        used += net.flow[RATE, flow]
        net.state[TOUCHED] += 1
        entry = net.entry[LATER, entry]
    net.link[USED, link], net.row[CROSSED, link] = used, 0
    return True
