"""What holds a flow back but for links: the inputs it forwards, what came of a cancelled one."""

from __future__ import annotations

import numpy as np

from mlfabric.compiled import inner
from mlfabric.engines.virtual.kernels.net import (
    CEILING,
    CHANGE,
    CHILD,
    HELD,
    INPUT,
    INPUTS,
    MOVED,
    NEXT,
    PATH,
    PICKED,
    RATE,
    SIZE,
    TIED,
    Net,
    allowed,
    come,
    near,
    scale,
)


@inner
def _jump(net: Net, flow: int, now: float) -> None:
    """A flow without links is where its inputs let it be."""
    limit = min(net.flow[SIZE, flow], net.flow[CEILING, flow])
    edge = net.tag[INPUTS, flow]
    while edge >= 0:
        if net.edge[INPUT, edge] >= 0:
            limit = min(limit, allowed(net, edge, now))
        edge = net.edge[NEXT, edge]
    net.flow[MOVED, flow] = max(net.flow[MOVED, flow], limit)


@inner
def _tie(net: Net, edge: int, now: float) -> float:
    """Whether a flow has caught up with its input (TIED); its cap by an input not picked."""
    flow, source = net.edge[CHILD, edge], net.edge[INPUT, edge]
    ahead, factor, rate = come(net, edge, now), scale(net, edge), net.flow[RATE, source]
    if not near(-ahead, net.flow[SIZE, source], rate, now):
        return 0.0
    gap = max(ahead, 0.0) * factor - net.flow[MOVED, flow]
    if not near(gap, net.flow[SIZE, flow], net.flow[RATE, flow] + factor * rate, now):
        return np.inf
    net.flow[MOVED, flow] += max(gap, 0.0)
    net.edge[TIED, edge] = 1
    return np.inf if net.tag[PICKED, source] == net.state[CHANGE] else factor * rate


@inner
def hold(net: Net, flow: int, now: float) -> bool:
    """Find what holds a flow back; whether it is capped below the rate of an input picked."""
    if net.tag[PATH, flow] < 0:
        _jump(net, flow, now)
    left = net.flow[CEILING, flow] - net.flow[MOVED, flow]
    cap = np.inf
    if near(left, net.flow[SIZE, flow], net.flow[RATE, flow], now):
        cap = 0.0
    shrinks, edge = False, net.tag[INPUTS, flow]
    while edge >= 0:
        net.edge[TIED, edge] = 0
        source = net.edge[INPUT, edge]
        if source >= 0:
            cap = min(cap, _tie(net, edge, now))
            picked = net.tag[PICKED, source] == net.state[CHANGE]
            shrinks |= picked and net.edge[TIED, edge] == 1 and scale(net, edge) < 1
        edge = net.edge[NEXT, edge]
    net.flow[HELD, flow] = cap
    return shrinks


@inner
def tied_cap(net: Net, flow: int, below: float) -> float:
    """The cap by inputs caught up with, at their rates as they stand, of scales below `below`."""
    cap, edge = np.inf, net.tag[INPUTS, flow]
    while edge >= 0:
        if net.edge[TIED, edge] == 1 and net.edge[INPUT, edge] >= 0 and scale(net, edge) < below:
            cap = min(cap, scale(net, edge) * net.flow[RATE, net.edge[INPUT, edge]])
        edge = net.edge[NEXT, edge]
    return cap
