"""A network of flows: how fast each is, and when it is through."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlfabric.engines.virtual.kernels import changes, net
from mlfabric.engines.virtual.kernels.timing import recompute
from mlfabric.errors import SettingError
from mlfabric.topology import Link

_NONE = np.empty(0, np.int64)
_ROOM = 16


class Fabric:
    """Flows on links, weighted max-min fair or first come first served [ours].

    A fluid model: every flow moves at a rate in bytes/s that changes only with the set of flows,
    with a link, or when a flow catches up with one that it forwards; from then on it is no faster
    than its input. After a change only those flows are computed anew that it may affect, once for
    all changes at one time.

    `now` is in seconds and never goes back, nor past `next_s()` but in `advance`.
    """

    def __init__(self, capacity: Mapping[Link, float], *, in_order: bool = False) -> None:
        """`capacity` in bytes/s of every link; `in_order`: flows take, in order of their start,
        what their path has left."""
        self._place = {link: place for place, link in enumerate(capacity)}
        state = np.zeros(net.PLACES, np.int64)
        state[[net.FREE_FLOW, net.FREE_ENTRY, net.FREE_EDGE, net.GONE]] = -1
        state[net.CHANGE], state[net.IN_ORDER] = 1, in_order
        row = np.full((net.ROW_ROWS, len(capacity)), -1, np.int64)
        link = np.zeros((net.LINK_ROWS, len(capacity)))
        for place, (one, bytes_per_s) in enumerate(capacity.items()):
            link[net.CAPACITY, place] = _rate(one, bytes_per_s)
        self._net = net.Net(
            np.empty((net.FLOW_ROWS, 0)),
            np.empty((net.TAG_ROWS, 0), np.int64),
            link,
            row,
            np.empty((net.ENTRY_ROWS, 0), np.int64),
            np.empty((net.EDGE_ROWS, 0), np.int64),
            np.empty((2, 0)),
            np.empty((3, 0), np.int64),
            state,
        )
        self._next_s = math.inf
        self._changed = False
        self._now = -math.inf
        self._make_room(_ROOM, 4 * _ROOM, _ROOM)

    @property
    def touched(self) -> int:
        """How many flows were computed anew so far, over all changes."""
        return self._net.state.item(net.TOUCHED)

    def set_rate(self, link: Link, bytes_per_s: float, now: float) -> None:
        """Change a link's capacity."""
        rate = _rate(link, bytes_per_s)
        self._change(now)
        changes.set_rate(self._place[link], rate, now, *self._net)

    def start(
        self,
        path: Sequence[Link],
        n_bytes: float,
        now: float,
        *,
        behind: Sequence[int] = (),
        lag_bytes: float = 0.0,
        weight: float = 1.0,
        mark: float = math.inf,
        then: float = math.inf,
    ) -> int:
        """Start a flow over `path`; returns its number.

        The number of a flow that has ended or was cancelled is used again after the next `advance`.
        The share of it that has moved never exceeds, for any live flow of `behind`, the share of
        that one that has moved, less `lag_bytes` of it. Where flows share a link, shares are as
        their weights, from a thousandth to a thousand; nobody's is above that of a live flow of
        `behind`. It is reported when it has moved `mark` bytes, and then once more when it has
        moved `then`, if that is more.
        """
        if not (0 <= n_bytes < math.inf and 0 <= lag_bytes < math.inf):
            raise SettingError(
                f"n_bytes={n_bytes}, lag_bytes={lag_bytes}: allowed are numbers from 0 on"
            )
        if not 1e-3 <= weight <= 1e3:
            raise SettingError(f"weight={weight}: allowed are numbers from 0.001 to 1000")
        place = self._place
        links = np.array([place[link] for link in path], np.int64)
        inputs = np.array(behind, np.int64) if behind else _NONE
        how = (float(n_bytes), float(mark), float(then), float(lag_bytes), float(weight), now)
        self._change(now)
        flow = changes.start(links, inputs, *how, *self._net)
        if flow < 0:
            self._make_room(1, len(links), len(inputs))
            flow = changes.start(links, inputs, *how, *self._net)
        return flow

    def set_mark(self, flow: int, moved_bytes: float, now: float) -> None:
        """Report when a flow has moved so many bytes, instead of at its next mark."""
        self._change(now)
        changes.set_mark(flow, float(moved_bytes), now, *self._net)

    def cancel(self, flow: int, now: float) -> float:
        """End a flow; returns the bytes it has moved. Those behind it get no further than that."""
        self._change(now)
        return changes.cancel(flow, now, *self._net)

    def moved(self, flow: int, now: float) -> float:
        """Bytes moved by `now`."""
        if now != self._now:
            self.next_s()
        flows = self._net.flow
        passed = now - flows.item(net.SINCE, flow)
        moved = flows.item(net.MOVED, flow) + flows.item(net.RATE, flow) * passed
        return min(moved, flows.item(net.SIZE, flow))

    def rate(self, flow: int) -> float:
        """Bytes/s."""
        self.next_s()
        return self._net.flow.item(net.RATE, flow)

    def next_s(self) -> float:
        """When `advance` must be called, inf if never: something ends, is reached or catches up."""
        if self._changed:
            self._next_s = recompute(self._now, *self._net)
            self._changed = False
        return self._next_s

    def advance(self, now: float) -> list[tuple[int, bool]]:
        """Flows whose mark or end was reached by `now`, and whether it is the end.

        In order of their start. What ended is gone, its number free. What only follows from that
        (an end of a flow without links) is left for the next call, which may be due at once.
        """
        reports: list[list[int]] = []
        while self.next_s() <= now:
            self._change(self._next_s)
            count = changes.reach(self._reports, self._now, *self._net)
            reports += self._reports[:count].tolist()
            if self._now == now:
                break
        self._move(now)
        if len(reports) > 1:
            reports.sort(key=itemgetter(0))
        return [(flow, ended == 1) for _, flow, ended in reports]

    def recompute(self, now: float) -> None:
        """Compute all flows anew, as if every one were affected."""
        self._change(now)
        changes.pick_all(now, *self._net)

    def _change(self, now: float) -> None:
        """Something changes now; rates are computed once for all that changes at one time."""
        self._move(now)
        self._changed = True

    def _move(self, now: float) -> None:
        if now != self._now:
            if not self._now < now <= self.next_s():
                raise ValueError(f"now={now}: allowed is {self._now} to {self._next_s}")
            self._now = now

    def _make_room(self, flows: int, entries: int, edges: int) -> None:
        """Make room for at least so many more, where there is not."""
        state = self._net.state
        if state[net.FREE_FLOW] < 0:
            self._widen_flows(flows)
        if state[net.SPARE_ENTRIES] < entries:
            wider = _widened(self._net.entry, entries, state, net.FREE_ENTRY, net.SPARE_ENTRIES)
            self._net = self._net._replace(entry=wider)
        if state[net.SPARE_EDGES] < edges:
            wider = _widened(self._net.edge, edges, state, net.FREE_EDGE, net.SPARE_EDGES)
            self._net = self._net._replace(edge=wider)
        flows, links = self._net.flow.shape[1], self._net.link.shape[1]
        heap = np.zeros((2, flows + links + self._net.edge.shape[1]))
        work = np.zeros((3, max(flows, links)), np.int64)
        work[:, : self._net.work.shape[1]] = self._net.work
        self._net = self._net._replace(heap=heap, work=work)
        self._reports = np.zeros((flows, 3), np.int64)

    def _widen_flows(self, flows: int) -> None:
        first = self._net.flow.shape[1]
        flow, tag = _wider(self._net.flow, flows), _wider(self._net.tag, flows)
        flow[[net.AT, net.EARLY], first:] = math.inf
        tag[net.ORDER, first:] = -1
        _chain(tag[net.INPUTS], first, self._net.state, net.FREE_FLOW)
        self._net = self._net._replace(flow=flow, tag=tag)


def _wider(rows: NDArray[Any], least: int) -> NDArray[Any]:
    """Twice the columns, or so many more."""
    return np.pad(rows, ((0, 0), (0, max(least, rows.shape[1]))))


def _widened(rows: net.Ints, least: int, state: net.Ints, head: int, spare: int) -> net.Ints:
    """The same of entries or edges, the new ones free."""
    wider: net.Ints = _wider(rows, least)
    _chain(wider[net.NEXT], rows.shape[1], state, head)
    state[spare] += wider.shape[1] - rows.shape[1]
    return wider


def _chain(following: net.Ints, first: int, state: net.Ints, head: int) -> None:
    """Put columns from `first` on before the free ones."""
    following[first:] = np.arange(first + 1, len(following) + 1)
    following[-1] = state[head]
    state[head] = first


def _rate(link: Link, bytes_per_s: float) -> float:
    if not 0 <= bytes_per_s < math.inf:
        raise SettingError(f"capacity of {link}={bytes_per_s}: allowed are numbers from 0 on")
    return float(bytes_per_s)


def warm_up() -> None:
    """Compile everything, or load it, which takes a quarter of a minute the first time."""
    link = Link("a", "egress")
    fabric = Fabric({link: 1.0})
    first = fabric.start((link,), 4.0, 0.0, mark=1.0)
    second = fabric.start((), 4.0, 0.0, behind=(first,), lag_bytes=1.0)
    fabric.set_rate(link, 2.0, 0.0)
    fabric.advance(fabric.next_s())
    fabric.set_mark(first, 2.0, 0.5)
    fabric.cancel(second, 0.5)
    fabric.recompute(0.5)
    fabric.moved(first, 0.5)
