"""Flows, links, and who forwards whom, as rows of numbers; how far a flow is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlfabric.compiled import inner

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESIDUE = 1e-9
"""A share of a size or of a rate that is rounding."""
ULPS = 1e-15
"""A share of a point in time that is rounding."""
ROUNDS = 1000
"""So often at most are rates computed where a flow is capped below the rate of its input; hardly
ever more than a few times, but where both share a link."""
STEADY = 1e-12
"""A share of a rate by which it may still change then."""
NEVER = 2**62

# Rows of Net.flow: bytes, bytes/s and seconds. `moved` holds at `since`; something is due `at`, and
# as good as reached from `early` on. No faster than `held`, for what was not picked; `cap` in all.
# Shares of a full link are as the weights. After a flow's mark comes one more, `then`.
SIZE, MOVED, SINCE, RATE, MARK, CEILING, LAG, AT, EARLY, HELD, CAP, WAS, WEIGHT, THEN = range(14)
FLOW_ROWS, TAG_ROWS, LINK_ROWS, ROW_ROWS, ENTRY_ROWS, EDGE_ROWS, PLACES = 14, 7, 4, 6, 5, 6, 15
# Rows of Net.tag, a flow's whole numbers: its start's number, first entry, edge to its first input,
# edge to the first flow behind it, the change that picked it last (negative: it was settled with
# its link), whether its rate is settled, and the change that has only its times computed anew. A
# flow with a ceiling has, or had, an input.
ORDER, PATH, INPUTS, BEHIND, PICKED, SETTLED, TIMED = range(7)
# Rows of Net.link and of Net.row, a link's whole numbers: its first and last entry, the change that
# crossed it last, whether it was full, the earliest flow picked there, and how many there are
# unsettled (`weights`: of those together). What a link that no two flows share uses is not noted.
CAPACITY, USED, FREE, WEIGHTS = range(4)
HEAD, TAIL, CROSSED, FULL, FROM, COUNT = range(6)
# Rows of Net.entry (a flow on a link) and of Net.edge (a flow behind its input, -1 once it ended).
NEXT, LATER, SOONER, LINK, ENTRY_FLOW = range(5)
INPUT, CHILD, TIED = range(3, 6)
# Rows of Net.work and of Net.heap.
FLOWS, LINKS, MARKED = range(3)
KEY, ITEM = range(2)
# Places in Net.state.
FREE_FLOW, FREE_ENTRY, FREE_EDGE, END, STARTS, CHANGE, N_FLOWS, N_LINKS, N_HEAP = range(9)
TOUCHED, IN_ORDER, SPARE_ENTRIES, SPARE_EDGES, GONE, N_MARKED = range(9, 15)


class Net(NamedTuple):
    """Everything as rows of numbers; a column is a flow, a link, an entry or an edge."""

    flow: Floats
    tag: Ints
    link: Floats
    row: Ints
    entry: Ints
    edge: Ints
    heap: Floats
    work: Ints
    state: Ints


@inner
def near(left: float, size: float, speed: float, now: float) -> bool:
    """Whether what is left of `size` is rounding, of bytes or of the clock."""
    return left <= RESIDUE * size or left <= ULPS * abs(now) * speed


@inner
def moved(net: Net, flow: int, now: float) -> float:
    come = net.flow[MOVED, flow] + net.flow[RATE, flow] * (now - net.flow[SINCE, flow])
    return float(min(come, net.flow[SIZE, flow]))


@inner
def bring(net: Net, flow: int, now: float) -> None:
    net.flow[MOVED, flow] = moved(net, flow, now)
    net.flow[SINCE, flow] = now


@inner
def scale(net: Net, edge: int) -> float:
    """Bytes of a flow to one byte of its input."""
    size = net.flow[SIZE, net.edge[INPUT, edge]]
    return float(net.flow[SIZE, net.edge[CHILD, edge]] / size) if size > 0 else 0.0


@inner
def come(net: Net, edge: int, now: float) -> float:
    """Bytes of the input that may be forwarded; negative until the first may."""
    return float(moved(net, net.edge[INPUT, edge], now) - net.flow[LAG, net.edge[CHILD, edge]])


@inner
def allowed(net: Net, edge: int, now: float) -> float:
    return float(max(come(net, edge, now), 0.0) * scale(net, edge))


@inner
def lone(net: Net, link: int) -> bool:
    """Whether no two flows share a link: where sharing is by weights, it is but a cap on a flow."""
    return bool(net.row[HEAD, link] == net.row[TAIL, link])


@inner
def lone_cap(net: Net, flow: int) -> float:
    """The cap by links that a flow has to itself."""
    cap, entry = np.inf, net.tag[PATH, flow]
    while entry >= 0:
        link = net.entry[LINK, entry]
        if lone(net, link):
            cap = min(cap, net.link[CAPACITY, link])
        entry = net.entry[NEXT, entry]
    return cap


@inner
def due(left: float, size: float, speed: float, now: float) -> tuple[float, float]:
    """When `left` of `size` bytes are through, and from when on they are but for rounding."""
    if near(left, size, speed, now):
        return now, now
    if speed <= 0:
        return np.inf, np.inf
    return now + left / speed, now + (left - RESIDUE * size) / speed


@inner
def expect_end(net: Net, flow: int, now: float) -> None:
    """Have a flow due at its end, or at its mark."""
    size, left = net.flow[SIZE, flow], min(net.flow[SIZE, flow], net.flow[MARK, flow])
    at, early = due(left - net.flow[MOVED, flow], size, net.flow[RATE, flow], now)
    net.flow[AT, flow], net.flow[EARLY, flow] = at, early
