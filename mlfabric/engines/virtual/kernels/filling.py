"""Rates of the flows picked, with all others as they are."""

from __future__ import annotations

import numpy as np

from mlfabric.compiled import inner
from mlfabric.engines.virtual.kernels.holding import hold, tied_cap
from mlfabric.engines.virtual.kernels.net import (
    BEHIND,
    CAP,
    CAPACITY,
    CHANGE,
    CHILD,
    COUNT,
    ENTRY_FLOW,
    FLOWS,
    FREE,
    HEAD,
    HELD,
    IN_ORDER,
    INPUTS,
    ITEM,
    KEY,
    LATER,
    LINK,
    LINKS,
    N_FLOWS,
    N_HEAP,
    N_LINKS,
    NEXT,
    ORDER,
    PATH,
    PICKED,
    RATE,
    RESIDUE,
    ROUNDS,
    SETTLED,
    STEADY,
    TIED,
    WAS,
    WEIGHT,
    WEIGHTS,
    Net,
    lone_cap,
    scale,
)


@inner
def _push(net: Net, key: float, item: int) -> None:
    heap, place = net.heap, net.state[N_HEAP]
    net.state[N_HEAP] += 1
    while place > 0 and heap[KEY, (place - 1) // 2] > key:
        above = (place - 1) // 2
        heap[KEY, place], heap[ITEM, place] = heap[KEY, above], heap[ITEM, above]
        place = above
    heap[KEY, place], heap[ITEM, place] = key, item


@inner
def _replace(net: Net, key: float, item: int) -> None:
    """Put another in the place of the first one."""
    heap, place, size = net.heap, 0, net.state[N_HEAP]
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and heap[KEY, below + 1] < heap[KEY, below]:
            below += 1
        if heap[KEY, below] >= key:
            break
        heap[KEY, place], heap[ITEM, place] = heap[KEY, below], heap[ITEM, below]
        place = below
    heap[KEY, place], heap[ITEM, place] = key, item


@inner
def _drop_first(net: Net) -> None:
    net.state[N_HEAP] -= 1
    last = net.state[N_HEAP]
    _replace(net, net.heap[KEY, last], int(net.heap[ITEM, last]))


@inner
def _measure(net: Net, link: int) -> None:
    """What flows not picked leave of a link, and who shares that."""
    free, count, weights, entry = net.link[CAPACITY, link], 0, 0.0, net.row[HEAD, link]
    while entry >= 0:
        flow = net.entry[ENTRY_FLOW, entry]
        if net.tag[PICKED, flow] == net.state[CHANGE]:
            count += 1
            weights += net.flow[WEIGHT, flow]
        else:
            free -= net.flow[RATE, flow]
        entry = net.entry[LATER, entry]
    net.link[FREE, link], net.row[COUNT, link], net.link[WEIGHTS, link] = free, count, weights


@inner
def _pass_on(net: Net, flow: int, rate: float) -> None:
    """A flow's rate is the cap of those that have caught up with it."""
    edge = net.tag[BEHIND, flow]
    while edge >= 0:
        child = net.edge[CHILD, edge]
        if net.edge[TIED, edge] == 1 and net.tag[SETTLED, child] == 0:
            cap = scale(net, edge) * rate
            if cap < net.flow[CAP, child]:
                net.flow[CAP, child] = cap
                if not net.state[IN_ORDER]:
                    _push(net, cap / net.flow[WEIGHT, child], ~child)
        edge = net.edge[LATER, edge]


@inner
def _settle(net: Net, flow: int, rate: float) -> None:
    """Fix a flow's rate."""
    net.flow[RATE, flow], net.tag[SETTLED, flow] = rate, 1
    entry = net.tag[PATH, flow]
    while entry >= 0:
        link = net.entry[LINK, entry]
        net.link[FREE, link] -= rate
        net.row[COUNT, link] -= 1
        net.link[WEIGHTS, link] -= net.flow[WEIGHT, flow]
        entry = net.entry[NEXT, entry]
    if net.tag[BEHIND, flow] >= 0:
        _pass_on(net, flow, rate)


@inner
def _fill(net: Net, again: bool) -> None:
    """Progressive filling: all rise together, each as its weight, until a link is full or a cap is
    reached. Levels are bytes/s to a weight of one."""
    net.state[N_HEAP], open_ = 0, net.state[N_FLOWS]
    for i in range(net.state[N_FLOWS]):
        flow = net.work[FLOWS, i]
        net.tag[SETTLED, flow] = 0
        net.flow[CAP, flow] = min(net.flow[HELD, flow], lone_cap(net, flow))
        if again:
            net.flow[CAP, flow] = min(net.flow[CAP, flow], tied_cap(net, flow, 1.0))
        if net.flow[CAP, flow] < np.inf:
            _push(net, net.flow[CAP, flow] / net.flow[WEIGHT, flow], ~flow)
    for i in range(net.state[N_LINKS]):
        link = net.work[LINKS, i]
        _measure(net, link)
        if net.row[COUNT, link] > 0:
            _push(net, net.link[FREE, link] / net.link[WEIGHTS, link], link)
    while open_ > 0 and net.state[N_HEAP] > 0:
        open_ -= _fill_next(net)
    for i in range(net.state[N_FLOWS] if open_ > 0 else 0):
        if net.tag[SETTLED, net.work[FLOWS, i]] == 0:
            _settle(net, net.work[FLOWS, i], 0.0)


@inner
def _fill_next(net: Net) -> int:
    """The next link that is full or cap that is reached; how many flows that settles."""
    key, item = net.heap[KEY, 0], int(net.heap[ITEM, 0])
    if item < 0:
        _drop_first(net)
        if net.tag[SETTLED, ~item]:
            return 0
        _settle(net, ~item, net.flow[CAP, ~item])
        return 1
    if net.row[COUNT, item] == 0:
        _drop_first(net)
        return 0
    level = max(net.link[FREE, item], 0.0) / net.link[WEIGHTS, item]
    if level > key:
        _replace(net, level, item)
        return 0
    _drop_first(net)
    settled, entry = 0, net.row[HEAD, item]
    while entry >= 0:
        flow = net.entry[ENTRY_FLOW, entry]
        if net.tag[PICKED, flow] == net.state[CHANGE] and net.tag[SETTLED, flow] == 0:
            _settle(net, flow, min(level * net.flow[WEIGHT, flow], net.flow[CAP, flow]))
            settled += 1
        entry = net.entry[LATER, entry]
    return settled


@inner
def _serve(net: Net) -> None:
    """First come first served: each takes what those before it have left on its path."""
    net.state[N_HEAP] = 0
    for i in range(net.state[N_LINKS]):
        _measure(net, net.work[LINKS, i])
    for i in range(net.state[N_FLOWS]):
        _push(net, float(net.tag[ORDER, net.work[FLOWS, i]]), net.work[FLOWS, i])
    while net.state[N_HEAP] > 0:
        flow = int(net.heap[ITEM, 0])
        _drop_first(net)
        rate, entry = min(net.flow[HELD, flow], tied_cap(net, flow, np.inf)), net.tag[PATH, flow]
        if entry < 0 and rate == np.inf:
            rate = 0.0
        while entry >= 0:
            link = net.entry[LINK, entry]
            free = net.link[FREE, link]
            rate = min(rate, free if free > RESIDUE * net.link[CAPACITY, link] else 0.0)
            entry = net.entry[NEXT, entry]
        _settle(net, flow, rate)


@inner
def _unsteady(net: Net) -> bool:
    """Whether computing rates once more has changed one."""
    changed = False
    for i in range(net.state[N_FLOWS]):
        flow = net.work[FLOWS, i]
        rate, was = net.flow[RATE, flow], net.flow[WAS, flow]
        changed |= abs(rate - was) > STEADY * max(rate, was)
        net.flow[WAS, flow] = rate
    return changed


@inner
def _clamp(net: Net) -> None:
    """Slow down what is still faster than its inputs let it be, and those behind it."""
    again = True
    while again:
        again = False
        for i in range(net.state[N_FLOWS]):
            flow = net.work[FLOWS, i]
            cap = tied_cap(net, flow, np.inf)
            if net.flow[RATE, flow] > cap:
                net.flow[RATE, flow], again = cap, True


@inner
def share(net: Net, now: float) -> None:
    """Rates of all flows picked."""
    shrinks = False
    for i in range(net.state[N_FLOWS]):
        flow = net.work[FLOWS, i]
        net.flow[HELD, flow] = np.inf
        if net.tag[INPUTS, flow] >= 0 or net.tag[PATH, flow] < 0:
            shrinks |= hold(net, flow, now)
    if net.state[IN_ORDER]:
        _serve(net)
        return
    # Who is capped below its input's rate is settled before it: caps are approached.
    for i in range(ROUNDS if shrinks else 1):
        _fill(net, i > 0)
        steady = shrinks and not _unsteady(net)
        if i > 0 and steady:
            break
    if shrinks:
        _clamp(net)
