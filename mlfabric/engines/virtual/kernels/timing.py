"""When something is due, and what happens to rates and times after a change."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlfabric.compiled import compiled, inner
from mlfabric.engines.virtual.kernels.filling import share
from mlfabric.engines.virtual.kernels.net import (
    AT,
    CEILING,
    CHANGE,
    CHILD,
    CROSSED,
    EARLY,
    END,
    ENTRY_FLOW,
    FLOWS,
    FULL,
    HEAD,
    IN_ORDER,
    INPUT,
    INPUTS,
    LATER,
    LINKS,
    MARKED,
    MOVED,
    N_FLOWS,
    N_LINKS,
    N_MARKED,
    NEXT,
    ORDER,
    PICKED,
    RATE,
    SIZE,
    TIED,
    TOUCHED,
    USED,
    Net,
    come,
    due,
    expect_end,
    near,
    scale,
)
from mlfabric.engines.virtual.kernels.picking import full, pick_beside, pick_on
from mlfabric.engines.virtual.kernels.stars import settle_star


@inner
def _expect(net: Net, flow: int, left: float, size: float, speed: float, now: float) -> None:
    at, early = due(left, size, speed, now)
    net.flow[AT, flow] = min(net.flow[AT, flow], at)
    net.flow[EARLY, flow] = min(net.flow[EARLY, flow], early)


@inner
def _expect_input(net: Net, edge: int, now: float) -> None:
    """Have a flow due when it may start to forward an input, or when it has caught up with it."""
    flow, source = net.edge[CHILD, edge], net.edge[INPUT, edge]
    ahead, rate = come(net, edge, now), net.flow[RATE, source]
    if ahead < 0:
        _expect(net, flow, -ahead, net.flow[SIZE, source], rate, now)
        return
    gap = ahead * scale(net, edge) - net.flow[MOVED, flow]
    closing = net.flow[RATE, flow] - scale(net, edge) * rate
    if closing > 0:
        _expect(net, flow, gap, net.flow[SIZE, flow], closing, now)


@inner
def _expect_held(net: Net, flow: int, now: float) -> None:
    """The same of all that may hold a flow back; one of no bytes ends with its inputs."""
    size, moved, rate = net.flow[SIZE, flow], net.flow[MOVED, flow], net.flow[RATE, flow]
    edge = net.tag[INPUTS, flow]
    while edge >= 0:
        if net.edge[INPUT, edge] >= 0:
            if size == 0:
                net.flow[AT, flow] = net.flow[EARLY, flow] = np.inf
            if net.edge[TIED, edge] == 0:
                _expect_input(net, edge, now)
        edge = net.edge[NEXT, edge]
    left = net.flow[CEILING, flow] - moved
    if left < np.inf and not near(left, size, rate, now):
        _expect(net, flow, left, size, rate, now)


@inner
def _schedule(net: Net, row: int, count: int, now: float) -> None:
    """Note when flows are due next: their end, their mark, or what holds them back."""
    for i in range(count):
        flow = net.work[row, i]
        expect_end(net, flow, now)
        if net.tag[INPUTS, flow] >= 0:
            _expect_held(net, flow, now)


@inner
def _widen(net: Net, now: float) -> None:
    """Note how much links carry, and pick all flows of those that are full now."""
    for i in range(net.state[N_LINKS]):
        link = net.work[LINKS, i]
        used, entry = 0.0, net.row[HEAD, link]
        while entry >= 0:
            used += net.flow[RATE, net.entry[ENTRY_FLOW, entry]]
            entry = net.entry[LATER, entry]
        net.link[USED, link] = used
        if not net.state[IN_ORDER] and full(net, link):
            pick_on(net, link, net.row[HEAD, link], now)


@inner
def _forget_removed(net: Net, row: int, count: int) -> int:
    """A flow may be picked first, and then end; how many are left."""
    kept = 0
    for i in range(count):
        flow = net.work[row, i]
        if net.tag[ORDER, flow] >= 0:
            net.work[row, kept] = flow
            kept += 1
    return kept


@inner
def _forget_settled(net: Net) -> None:
    """Leave those that a star settled out of what is to be computed."""
    flows, links = 0, 0
    for i in range(net.state[N_FLOWS]):
        if net.tag[PICKED, net.work[FLOWS, i]] == net.state[CHANGE]:
            net.work[FLOWS, flows] = net.work[FLOWS, i]
            flows += 1
    for i in range(net.state[N_LINKS]):
        if net.row[CROSSED, net.work[LINKS, i]] == net.state[CHANGE]:
            net.work[LINKS, links] = net.work[LINKS, i]
            links += 1
    net.state[N_FLOWS], net.state[N_LINKS] = flows, links


@inner
def _pick_affected(net: Net, flows: int, links: int, now: float) -> None:
    """Pick whom the flows and links picked and crossed affect, those from `flows` and `links` on;
    what is a star is settled."""
    while flows < net.state[N_FLOWS] or links < net.state[N_LINKS]:
        if links < net.state[N_LINKS]:
            link = net.work[LINKS, links]
            links += 1
            if net.state[IN_ORDER] or not net.row[FULL, link] or settle_star(net, link, now):
                continue
            pick_on(net, link, net.row[HEAD, link], now)
        else:
            flow = net.work[FLOWS, flows]
            flows += 1
            if net.tag[PICKED, flow] == net.state[CHANGE]:
                pick_beside(net, flow, False, now)
    _forget_settled(net)


@inner
def _soonest(net: Net) -> float:
    at = np.inf
    for flow in range(net.state[END]):
        at = min(at, net.flow[AT, flow])
    return at


@compiled
def recompute(now: float, *arrays: Any) -> float:
    """Rates and times of the flows picked and of all they affect; when something is due next."""
    net = Net(*arrays)
    net.state[N_FLOWS] = _forget_removed(net, FLOWS, net.state[N_FLOWS])
    marked = _forget_removed(net, MARKED, net.state[N_MARKED])
    flows, links = 0, 0
    while True:
        _pick_affected(net, flows, links, now)
        flows, links = net.state[N_FLOWS], net.state[N_LINKS]
        share(net, now)
        _widen(net, now)
        if net.state[N_FLOWS] == flows:
            break
    _schedule(net, MARKED, marked, now)
    _schedule(net, FLOWS, flows, now)
    net.state[TOUCHED] += flows
    net.state[CHANGE] += 1
    net.state[N_FLOWS] = net.state[N_LINKS] = net.state[N_MARKED] = 0
    return _soonest(net)
