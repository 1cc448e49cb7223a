"""Which flows a change may affect; they are brought up to date as they are picked."""

from __future__ import annotations

from mlfabric.compiled import inner
from mlfabric.engines.virtual.kernels.net import (
    BEHIND,
    CAPACITY,
    CHANGE,
    CHILD,
    CROSSED,
    ENTRY_FLOW,
    FLOWS,
    FROM,
    FULL,
    HEAD,
    IN_ORDER,
    LATER,
    LINK,
    LINKS,
    N_FLOWS,
    N_LINKS,
    NEVER,
    NEXT,
    ORDER,
    PATH,
    PICKED,
    RATE,
    RESIDUE,
    USED,
    Net,
    bring,
    lone,
)


@inner
def pick(net: Net, flow: int, now: float) -> None:
    if abs(net.tag[PICKED, flow]) != net.state[CHANGE]:
        net.tag[PICKED, flow] = net.state[CHANGE]
        bring(net, flow, now)
        net.work[FLOWS, net.state[N_FLOWS]] = flow
        net.state[N_FLOWS] += 1


@inner
def full(net: Net, link: int) -> bool:
    used, entry = net.link[USED, link], net.row[HEAD, link]
    if entry >= 0 and lone(net, link):
        used = net.flow[RATE, net.entry[ENTRY_FLOW, entry]]
    return bool(used >= net.link[CAPACITY, link] * (1 - RESIDUE))


@inner
def cross(net: Net, link: int) -> None:
    """Have the link's use computed anew."""
    if net.row[CROSSED, link] != net.state[CHANGE]:
        net.row[CROSSED, link], net.row[FROM, link] = net.state[CHANGE], NEVER
        net.row[FULL, link] = full(net, link)
        net.work[LINKS, net.state[N_LINKS]] = link
        net.state[N_LINKS] += 1


@inner
def pick_on(net: Net, link: int, entry: int, now: float) -> None:
    """Pick a link's flows from `entry` on, but for those that it has picked before."""
    if entry < 0:
        return
    first, stop = net.tag[ORDER, net.entry[ENTRY_FLOW, entry]], net.row[FROM, link]
    while entry >= 0 and net.tag[ORDER, net.entry[ENTRY_FLOW, entry]] < stop:
        pick(net, net.entry[ENTRY_FLOW, entry], now)
        entry = net.entry[LATER, entry]
    net.row[FROM, link] = min(first, stop)


@inner
def _pick_later(net: Net, entry: int, beyond: bool, now: float) -> None:
    """Pick those on a flow's link that are served after it."""
    link = net.entry[LINK, entry]
    cross(net, link)
    first = net.entry[LATER, entry] if beyond else entry
    if first >= 0 and net.tag[ORDER, net.entry[ENTRY_FLOW, first]] < net.row[FROM, link]:
        pick_on(net, link, first, now)


@inner
def pick_beside(net: Net, flow: int, beyond: bool, now: float) -> None:
    """Pick the flows that lose or gain what `flow` takes: those behind it, and where flows are
    served in order later ones (`beyond`: itself not); else its links are crossed."""
    entry = net.tag[PATH, flow]
    while entry >= 0:
        if net.state[IN_ORDER]:
            _pick_later(net, entry, beyond, now)
        elif not lone(net, net.entry[LINK, entry]):
            cross(net, net.entry[LINK, entry])
        entry = net.entry[NEXT, entry]
    edge = net.tag[BEHIND, flow]
    while edge >= 0:
        pick(net, net.edge[CHILD, edge], now)
        edge = net.edge[LATER, edge]
