"""Flows start, come to their end or mark, are cancelled; links change.

Every function takes the arrays of a `Net` last. It notes the flows and links that it touches;
several changes at one time are followed by one `recompute`, which finds whom they affect.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlfabric.compiled import compiled, inner
from mlfabric.engines.virtual.kernels.net import (
    AT,
    BEHIND,
    CAPACITY,
    CEILING,
    CHANGE,
    CHILD,
    EARLY,
    END,
    ENTRY_FLOW,
    FREE_EDGE,
    FREE_ENTRY,
    FREE_FLOW,
    FULL,
    GONE,
    HEAD,
    IN_ORDER,
    INPUT,
    INPUTS,
    LAG,
    LATER,
    LINK,
    MARK,
    MARKED,
    MOVED,
    N_MARKED,
    NEXT,
    ORDER,
    PATH,
    RATE,
    SINCE,
    SIZE,
    SOONER,
    SPARE_EDGES,
    SPARE_ENTRIES,
    STARTS,
    TAIL,
    THEN,
    TIED,
    TIMED,
    USED,
    WEIGHT,
    Ints,
    Net,
    allowed,
    bring,
    lone,
    near,
)
from mlfabric.engines.virtual.kernels.picking import (
    cross,
    full,
    pick,
    pick_beside,
    pick_on,
)

PASSES, ENDS = 1, 2


@inner
def _new_flow(
    net: Net, n_bytes: float, mark: float, then: float, lag: float, weight: float, now: float
) -> int:
    new = net.state[FREE_FLOW]
    net.state[FREE_FLOW] = net.tag[INPUTS, new]
    net.state[END] = max(net.state[END], new + 1)
    net.tag[ORDER, new] = net.state[STARTS]
    net.state[STARTS] += 1
    net.tag[PATH, new] = net.tag[INPUTS, new] = net.tag[BEHIND, new] = -1
    net.flow[SIZE, new], net.flow[MARK, new], net.flow[LAG, new] = n_bytes, mark, lag
    net.flow[THEN, new] = then if then > mark else np.inf
    net.flow[MOVED, new] = net.flow[RATE, new] = 0.0
    net.flow[SINCE, new], net.flow[CEILING, new], net.flow[WEIGHT, new] = now, np.inf, weight
    return int(new)


@inner
def _enter(net: Net, flow: int, link: int) -> None:
    """Put a flow on a link, behind all others there."""
    entry, tail = net.state[FREE_ENTRY], net.row[TAIL, link]
    net.state[FREE_ENTRY] = net.entry[NEXT, entry]
    net.state[SPARE_ENTRIES] -= 1
    net.entry[LINK, entry], net.entry[ENTRY_FLOW, entry] = link, flow
    net.entry[NEXT, entry], net.tag[PATH, flow] = net.tag[PATH, flow], entry
    net.entry[SOONER, entry], net.entry[LATER, entry] = tail, -1
    if tail >= 0:
        net.entry[LATER, tail] = entry
        if lone(net, link):
            net.link[USED, link] = net.flow[RATE, net.entry[ENTRY_FLOW, tail]]
    else:
        net.row[HEAD, link] = entry
    net.row[TAIL, link] = entry


@inner
def _follow(net: Net, flow: int, source: int) -> None:
    edge, first = net.state[FREE_EDGE], net.tag[BEHIND, source]
    net.state[FREE_EDGE] = net.edge[NEXT, edge]
    net.state[SPARE_EDGES] -= 1
    net.edge[INPUT, edge], net.edge[CHILD, edge], net.edge[TIED, edge] = source, flow, 0
    net.edge[NEXT, edge], net.tag[INPUTS, flow] = net.tag[INPUTS, flow], edge
    net.edge[SOONER, edge], net.edge[LATER, edge] = -1, first
    if first >= 0:
        net.edge[SOONER, first] = edge
    net.tag[BEHIND, source] = edge
    # A flow that shared better than its input would slow down what it waits for.
    net.flow[WEIGHT, flow] = min(net.flow[WEIGHT, flow], net.flow[WEIGHT, source])


@inner
def _leave_links(net: Net, flow: int) -> None:
    entry = net.tag[PATH, flow]
    while entry >= 0:
        link = net.entry[LINK, entry]
        before, after = net.entry[SOONER, entry], net.entry[LATER, entry]
        if before >= 0:
            net.entry[LATER, before] = after
        else:
            net.row[HEAD, link] = after
        if after >= 0:
            net.entry[SOONER, after] = before
        else:
            net.row[TAIL, link] = before
        following = net.entry[NEXT, entry]
        net.entry[NEXT, entry], net.state[FREE_ENTRY] = net.state[FREE_ENTRY], entry
        net.state[SPARE_ENTRIES] += 1
        entry = following


@inner
def _leave_inputs(net: Net, flow: int) -> None:
    edge = net.tag[INPUTS, flow]
    while edge >= 0:
        before, after = net.edge[SOONER, edge], net.edge[LATER, edge]
        if net.edge[INPUT, edge] >= 0:
            if before >= 0:
                net.edge[LATER, before] = after
            else:
                net.tag[BEHIND, net.edge[INPUT, edge]] = after
            if after >= 0:
                net.edge[SOONER, after] = before
        following = net.edge[NEXT, edge]
        net.edge[NEXT, edge], net.state[FREE_EDGE] = net.state[FREE_EDGE], edge
        net.state[SPARE_EDGES] += 1
        edge = following


@inner
def _remove(net: Net, flow: int) -> None:
    """Free a flow's links; those behind it go on without it."""
    edge = net.tag[BEHIND, flow]
    while edge >= 0:
        net.edge[INPUT, edge] = -1
        edge = net.edge[LATER, edge]
    _leave_links(net, flow)
    _leave_inputs(net, flow)
    net.flow[AT, flow] = net.flow[EARLY, flow] = np.inf
    net.tag[ORDER, flow] = -1
    net.tag[INPUTS, flow], net.state[GONE] = net.state[GONE], flow


@inner
def _free_removed(net: Net) -> None:
    """Numbers of flows removed before this are given to new ones again."""
    while net.state[GONE] >= 0:
        flow = net.state[GONE]
        net.state[GONE] = net.tag[INPUTS, flow]
        net.tag[INPUTS, flow], net.state[FREE_FLOW] = net.state[FREE_FLOW], flow


@inner
def _waits(net: Net, flow: int) -> bool:
    edge = net.tag[INPUTS, flow]
    while edge >= 0:
        if net.edge[INPUT, edge] >= 0:
            return True
        edge = net.edge[NEXT, edge]
    return False


@inner
def _due(net: Net, flow: int, now: float) -> int:
    """Whether a flow's end or its mark is reached; the next mark takes its place."""
    size, moved, rate = net.flow[SIZE, flow], net.flow[MOVED, flow], net.flow[RATE, flow]
    if near(size - moved, size, rate, now) and (size > 0 or not _waits(net, flow)):
        return ENDS
    if near(net.flow[MARK, flow] - moved, size, rate, now):
        net.flow[MARK, flow], net.flow[THEN, flow] = net.flow[THEN, flow], np.inf
        return PASSES
    return 0


@inner
def _note_mark(net: Net, flow: int) -> None:
    """Have the flow's next time computed anew, though not its rate."""
    if net.tag[TIMED, flow] != net.state[CHANGE]:
        net.tag[TIMED, flow] = net.state[CHANGE]
        net.work[MARKED, net.state[N_MARKED]] = flow
        net.state[N_MARKED] += 1


@compiled
def start(
    path: Ints,
    inputs: Ints,
    n_bytes: float,
    mark: float,
    then: float,
    lag: float,
    weight: float,
    now: float,
    *arrays: Any,
) -> int:
    """The new flow's number, -1 where there is no room for it."""
    net = Net(*arrays)
    spare = min(net.state[SPARE_ENTRIES] - len(path), net.state[SPARE_EDGES] - len(inputs))
    if net.state[FREE_FLOW] < 0 or spare < 0:
        return -1
    new = _new_flow(net, n_bytes, mark, then, lag, weight, now)
    for link in path:
        _enter(net, new, link)
    for source in inputs:
        _follow(net, new, source)
    pick(net, new, now)
    return new


@compiled
def reach(reports: Ints, now: float, *arrays: Any) -> int:
    """How many ends and marks are reached now; `reports` (room, 3): start, flow, whether its end.

    What has ended is removed; who has caught up with an input is picked.
    """
    net = Net(*arrays)
    count = 0
    _free_removed(net)
    for flow in range(net.state[END]):
        if net.flow[EARLY, flow] <= now:
            bring(net, flow, now)
            what = _due(net, flow, now)
            if what > 0:
                reports[count, 0], reports[count, 1] = net.tag[ORDER, flow], flow
                reports[count, 2] = what == ENDS
                count += 1
            if what == ENDS:
                pick_beside(net, flow, True, now)
            elif net.tag[INPUTS, flow] >= 0:
                pick(net, flow, now)
            else:
                _note_mark(net, flow)
    for i in range(count):
        if reports[i, 2]:
            _remove(net, reports[i, 1])
    return count


@compiled
def cancel(flow: int, now: float, *arrays: Any) -> float:
    """What a flow has moved; those behind it get no further than that."""
    net = Net(*arrays)
    bring(net, flow, now)
    edge = net.tag[BEHIND, flow]
    while edge >= 0:
        child = net.edge[CHILD, edge]
        net.flow[CEILING, child] = min(net.flow[CEILING, child], allowed(net, edge, now))
        edge = net.edge[LATER, edge]
    pick_beside(net, flow, True, now)
    _remove(net, flow)
    return float(net.flow[MOVED, flow])


@compiled
def set_rate(link: int, bytes_per_s: float, now: float, *arrays: Any) -> None:
    """Change a link's capacity; nothing follows where it neither was nor is full."""
    net = Net(*arrays)
    cross(net, link)
    net.link[CAPACITY, link] = bytes_per_s
    if net.state[IN_ORDER]:
        pick_on(net, link, net.row[HEAD, link], now)
    elif full(net, link):
        net.row[FULL, link] = True


@compiled
def set_mark(flow: int, mark: float, now: float, *arrays: Any) -> None:
    """Have a flow's mark reported."""
    net = Net(*arrays)
    net.flow[MARK, flow] = mark
    if net.flow[THEN, flow] <= mark:
        net.flow[THEN, flow] = np.inf
    bring(net, flow, now)
    _note_mark(net, flow)


@compiled
def pick_all(now: float, *arrays: Any) -> None:
    """Have everything computed anew."""
    net = Net(*arrays)
    for flow in range(net.state[END]):
        if net.tag[ORDER, flow] >= 0:
            pick(net, flow, now)
