"""Transfers on the virtual network: announced, carried as flows, followed, cut, brought."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mlfabric.engines.roles.node import Header
from mlfabric.engines.virtual.agenda import Agenda
from mlfabric.engines.virtual.fabric import Fabric
from mlfabric.engines.virtual.plan import VirtualPlan
from mlfabric.engines.virtual.shares import Shares
from mlfabric.payload import Payload
from mlfabric.topology import Link

MARK_GROWTH = 4.0
"""Receivers look at a transfer's rate each time this many times the bytes have come [ours]: from
1.1 to 8, updates/s and delays agree within what seeds vary, while 4 costs half of 1.1."""

NEWS_SHARE = 0.25
"""A rate that differs by this share from the last reported one is news, as on real ranks."""


class Stream:
    """One transfer, seen from both ends."""

    def __init__(
        self, src: str, dst: str, header: Header, payload: Payload, n_bytes: int, chunk_bytes: int
    ) -> None:
        self.src = src
        self.dst = dst
        self.header = header
        self.n_bytes = n_bytes
        self.last_chunk_at = float((math.ceil(n_bytes / chunk_bytes) - 1) * chunk_bytes)
        self.sent_s = 0.0
        self.announced_s = 0.0
        self.received_bytes = 0.0
        self.mark = math.inf
        self.done = False
        self.cut_short = False
        self.bytes_per_s: float | None = None
        self.flow: int | None = None
        self.flowed = False
        self.waiting: list[Callable[[], None]] = []
        self._payload = payload
        self._origin: tuple[float, float] | None = None
        self._reported: float | None = None

    def payload(self) -> Payload:
        """What it brings; on the virtual clock that is known from the start."""
        return self._payload

    def saw(self, moved: float, now: float) -> bool:
        """The receiver looks: `moved` bytes are there. Whether the rate is news."""
        self.received_bytes = moved
        if self._origin is None:
            self._origin = (moved, now)
            return False
        self._measure(moved, now)
        old, seen = self._reported, self.bytes_per_s
        if seen is None or (old is not None and abs(seen - old) < NEWS_SHARE * old):
            return False
        self._reported = seen
        return True

    def _measure(self, moved: float, now: float) -> None:
        assert self._origin is not None
        bytes_then, then = self._origin
        if now > then and moved > bytes_then:
            self.bytes_per_s = (moved - bytes_then) / (now - then)


class Streams:
    """Every transfer between virtual hosts.

    `announced`, `progress`, `ending` and `arrived` are called with a stream when its receiver
    learns of it, sees news of its rate, lacks one chunk, and has all of it.
    """

    def __init__(self, plan: VirtualPlan, agenda: Agenda, *, in_order: bool, watched: bool) -> None:
        self._plan = plan
        self._agenda = agenda
        self._watched = watched
        self._rare = in_order
        links = plan.link_bytes_per_s
        self.fabric = Fabric(
            {link: rate * plan.goodput for link, rate in links.items()}, in_order=in_order
        )
        self._chunk = plan.context.chunk_bytes
        self._shares = Shares(plan.context.seed, 0.0 if in_order else plan.share_spread)
        self._open: dict[Stream, None] = {}
        self._flying: dict[int, Stream] = {}
        self._connections: dict[tuple[str, str], deque[Stream]] = {}
        self._paths: dict[tuple[str, str], tuple[Link, ...]] = {}
        self._latency_s: dict[tuple[str, str], float] = {}
        self.announced: Callable[[Stream], None] = _ignore
        self.progress: Callable[[Stream], None] = _ignore
        self.ending: Callable[[Stream], None] = _ignore
        self.arrived: Callable[[Stream], None] = _ignore
        self.lost: Callable[[Stream], None] = _ignore

    def path(self, src: str, dst: str) -> tuple[Link, ...]:
        """The links from `src` to `dst`."""
        found = self._paths.get((src, dst))
        if found is None:
            found = self._paths[src, dst] = self._plan.context.topology.path(src, dst)
        return found

    def latency_s(self, src: str, dst: str) -> float:
        """What the first byte takes from `src` to `dst`."""
        found = self._latency_s.get((src, dst))
        if found is None:
            found = self._latency_s[src, dst] = self._plan.hop_s * len(self.path(src, dst))
        return found

    def send(
        self,
        src: str,
        dst: str,
        header: Header,
        payload: Payload,
        n_bytes: int,
        inputs: Sequence[Stream] = (),
    ) -> Stream:
        """Start a transfer; one with `inputs` passes them on chunk by chunk."""
        stream = Stream(src, dst, header, payload, n_bytes, self._chunk)
        stream.sent_s = self._agenda.now
        stream.announced_s = stream.sent_s + self._plan.message_s + self.latency_s(src, dst)
        self._open[stream] = None
        self._agenda.at(stream.announced_s, self._announce, stream)
        self._agenda.after(self._plan.startup_s, self._flow, stream, tuple(inputs))
        return stream

    def cut(self, stream: Stream) -> None:
        """Send nothing more of it; its receiver notes what had come."""
        if stream.flowed or stream.cut_short:
            return
        stream.cut_short = True
        del self._open[stream]
        if stream.flow is not None:
            stream.received_bytes = self.fabric.cancel(stream.flow, self._agenda.now)
            del self._flying[stream.flow]
            stream.flow = None
            self._leave(stream)
            self._agenda.after(self.latency_s(stream.src, stream.dst), self.lost, stream)

    def cut_all(self) -> None:
        """Stop everything, the earliest sent first; what has moved is noted at once."""
        for stream in self._open:
            stream.cut_short = True
            if stream.flow is not None:
                stream.received_bytes = self.fabric.moved(stream.flow, self._agenda.now)
            if stream.received_bytes > 0:
                self.lost(stream)

    @property
    def stalled(self) -> bool:
        """Whether something is on its links but does not move: a link may come back."""
        return bool(self._flying)

    def set_rates(self, rates: Sequence[tuple[Link, float]]) -> None:
        """Links change; receivers look again at what crosses them."""
        now, changed = self._agenda.now, set()
        for link, bytes_per_s in rates:
            self.fabric.set_rate(link, bytes_per_s * self._plan.goodput, now)
            changed.add(link)
        if self._watched:
            for flow, stream in self._flying.items():
                if not changed.isdisjoint(self.path(stream.src, stream.dst)):
                    self._mark(flow, stream, self.fabric.moved(flow, now) + 2 * self._chunk)

    def advance(self) -> None:
        """Let flows reach what they reach now."""
        reached = self.fabric.advance(self._agenda.now)
        streams = [
            self._flying.pop(flow) if ended else self._flying[flow] for flow, ended in reached
        ]
        for (flow, ended), stream in zip(reached, streams, strict=True):
            if ended:
                self._end(stream)
            else:
                self._look(flow, stream)

    def _announce(self, stream: Stream) -> None:
        if not stream.cut_short:
            self.announced(stream)

    def _flow(self, stream: Stream, inputs: tuple[Stream, ...]) -> None:
        """Put it on its links, as soon as all that it passes on is on the way."""
        if stream.cut_short:
            return
        for source in inputs:
            if source.cut_short:
                return
            if source.flow is None and not source.flowed:
                source.waiting.append(lambda: self._flow(stream, inputs))
                return
        behind = [source.flow for source in inputs if source.flow is not None]
        if not inputs and not self._has_turn(stream):
            return
        path, now = self.path(stream.src, stream.dst), self._agenda.now
        stream.mark = self._first_mark(stream, passes_on=bool(behind))
        flow = self.fabric.start(
            path,
            float(stream.n_bytes),
            now,
            behind=behind,
            lag_bytes=self._chunk,
            weight=self._shares.next(stream.src, stream.dst),
            mark=stream.mark,
        )
        stream.flow = flow
        self._flying[flow] = stream
        waiting, stream.waiting = stream.waiting, []
        for begin in waiting:
            begin()

    def _first_mark(self, stream: Stream, *, passes_on: bool) -> float:
        """Rates are seen from the first bytes on; of what is passed on, from the first chunk on."""
        if not self._watched or stream.n_bytes <= self._chunk:
            return math.inf
        if not passes_on:
            stream.saw(0.0, self._agenda.now)
        return min((1.0 if passes_on else 2.0) * self._chunk, stream.last_chunk_at)

    def _has_turn(self, stream: Stream) -> bool:
        """Whether nothing is before it on the connection of its two hosts, which keeps order."""
        queue = self._connections.setdefault((stream.src, stream.dst), deque())
        if not queue or queue[0] is not stream:
            queue.append(stream)
        return queue[0] is stream

    def _leave(self, stream: Stream) -> None:
        """Its connection is free for the next one."""
        queue = self._connections.get((stream.src, stream.dst))
        if queue and queue[0] is stream:
            queue.popleft()
            while queue and queue[0].cut_short:
                queue.popleft()
            if queue:
                self._flow(queue[0], ())

    def _look(self, flow: int, stream: Stream) -> None:
        moved = stream.mark
        news = stream.saw(moved, self._agenda.now)
        if moved >= stream.last_chunk_at:
            self.ending(stream)
            return
        if news:
            self.progress(stream)
        if moved < 1.5 * self._chunk:
            self._mark(flow, stream, 2.0 * self._chunk)
        elif self._rare:
            self._mark(flow, stream, stream.last_chunk_at)
        else:
            self._mark(flow, stream, math.ceil(moved * MARK_GROWTH / self._chunk) * self._chunk)

    def _mark(self, flow: int, stream: Stream, wanted: float) -> None:
        """Look when `wanted` bytes are there, or all but the last chunk."""
        if stream.received_bytes < stream.last_chunk_at:
            stream.mark = min(wanted, stream.last_chunk_at)
            self.fabric.set_mark(flow, stream.mark, self._agenda.now)

    def _end(self, stream: Stream) -> None:
        stream.flow, stream.flowed = None, True
        stream.received_bytes = float(stream.n_bytes)
        self._leave(stream)
        arrives_s = self._agenda.now + self.latency_s(stream.src, stream.dst)
        self._agenda.at(max(arrives_s, stream.announced_s), self._arrive, stream)

    def _arrive(self, stream: Stream) -> None:
        stream.done = True
        del self._open[stream]
        self.arrived(stream)


def _ignore(*arguments: Any) -> None:
    """Nobody listens."""
