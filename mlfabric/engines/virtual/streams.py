"""Transfers on the virtual network: announced, carried as flows, followed, cut, brought."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mlfabric.engines.roles.node import Header
from mlfabric.engines.virtual.agenda import Agenda
from mlfabric.engines.virtual.fabric import Fabric
from mlfabric.engines.virtual.plan import VirtualPlan
from mlfabric.engines.virtual.shares import Shares
from mlfabric.payload import Payload
from mlfabric.topology import Link

MARK_GROWTH = 1.5
"""Once a link has changed, receivers look each time this many times the bytes have come [ours]."""

NEWS_SHARE = 0.25
"""A rate that differs by this share from the last reported one is news, as on real ranks."""


@dataclass(eq=False)
class Stream:
    """One transfer, seen from both ends; `last_chunk_at`: bytes there when one chunk is lacking."""

    src: str
    dst: str
    header: Header
    content: Payload
    n_bytes: int
    last_chunk_at: float
    path: tuple[Link, ...]
    latency_s: float
    sent_s: float
    announced_s: float
    received_bytes: float = 0.0
    bytes_per_s: float | None = None
    flow: int | None = None
    flowed: bool = False
    done: bool = False
    cut_short: bool = False
    mark: float = math.inf
    then: float = math.inf
    unsteady: bool = False
    waiting: list[Callable[[], None]] = field(default_factory=list)
    _origin: tuple[float, float] | None = None
    _reported: float | None = None

    def payload(self) -> Payload:
        """What it brings; on the virtual clock that is known from the start."""
        return self.content

    @property
    def connection(self) -> tuple[str, str, int]:
        """The hosts, and the shard, within which streams keep their order."""
        return self.src, self.dst, self.header["shard"]

    @property
    def looked_at(self) -> bool:
        """Whether there is something to compare the next look with."""
        return self._origin is not None

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


class Receiver(Protocol):
    """The host at the end of a stream."""

    def announced(self, stream: Stream) -> None:
        """It learns of the stream."""

    def progress(self, stream: Stream) -> None:
        """It sees news of the rate."""

    def ending(self, stream: Stream) -> None:
        """It lacks one chunk."""

    def arrived(self, stream: Stream) -> None:
        """It has all."""

    def record_transfer(self, stream: Stream) -> None:
        """Nothing more of it comes: note what has."""


class Streams:
    """Every transfer between virtual hosts.

    With `watched`, receivers look how fast streams come: when the first chunks are there, when one
    is lacking, and now and then once a link has changed. Looking more often makes no difference
    (docs/virtual-clock.md).
    """

    def __init__(
        self,
        plan: VirtualPlan,
        agenda: Agenda,
        receivers: Mapping[str, Receiver],
        *,
        in_order: bool,
        watched: bool,
    ) -> None:
        self._plan = plan
        self._agenda = agenda
        self._receivers = receivers
        self._watched = watched
        links = plan.link_bytes_per_s
        self.fabric = Fabric(
            {link: rate * plan.goodput for link, rate in links.items()}, in_order=in_order
        )
        self._chunk = plan.context.chunk_bytes
        self._shares = Shares(plan.context.seed, 0.0 if in_order else plan.share_spread)
        self._open: dict[Stream, None] = {}
        self._flying: dict[int, Stream] = {}
        self._gone: set[str] = set()
        self._connections: dict[tuple[str, str, int], deque[Stream]] = {}

    def path(self, src: str, dst: str) -> tuple[Link, ...]:
        """The links from `src` to `dst`."""
        return self._plan.context.topology.path(src, dst)

    def send(
        self,
        src: str,
        dst: str,
        header: Header,
        payload: Payload,
        n_bytes: int,
        inputs: Sequence[Stream] = (),
    ) -> Stream:
        """Start a transfer; one with `inputs` passes them on chunk by chunk.

        One that stays on its host takes no more than a message does.
        """
        path, now = self.path(src, dst), self._agenda.now
        latency_s = self._plan.hop_s * len(path)
        announced_s = now + self._plan.message_s + latency_s
        last = float(max(math.ceil(n_bytes / self._chunk) - 1, 0) * self._chunk)
        stream = Stream(src, dst, header, payload, n_bytes, last, path, latency_s, now, announced_s)
        if self._gone and not self._gone.isdisjoint((src, dst)):
            stream.cut_short = True
            return stream
        self._open[stream] = None
        self._agenda.at(announced_s, self._announce, stream)
        if not path:
            stream.flowed, stream.received_bytes = True, float(n_bytes)
            self._agenda.at(announced_s, self._arrive, stream)
            return stream
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
            self._agenda.after(stream.latency_s, self._lost, stream)

    def lose(self, host: str) -> None:
        """Nothing comes from this host or gets there any more."""
        self._gone.add(host)
        for stream in [stream for stream in self._open if host in (stream.src, stream.dst)]:
            self.cut(stream)

    def cut_all(self) -> None:
        """Stop everything, the earliest sent first; what has moved is noted at once."""
        for stream in self._open:
            stream.cut_short = True
            if stream.flow is not None:
                stream.received_bytes = self.fabric.moved(stream.flow, self._agenda.now)
            if stream.received_bytes > 0:
                self._lost(stream)

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
                if stream.looked_at and not changed.isdisjoint(stream.path):
                    stream.unsteady = True
                    self._mark(flow, stream, self.fabric.moved(flow, now) + 2 * self._chunk)

    def advance(self) -> None:
        """Let flows reach what they reach now."""
        for flow, ended in self.fabric.advance(self._agenda.now):
            if ended:
                self._end(self._flying.pop(flow))
            else:
                self._look(flow, self._flying[flow])

    def _announce(self, stream: Stream) -> None:
        if not stream.cut_short:
            self._receivers[stream.dst].announced(stream)

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
        self._first_marks(stream, passes_on=bool(behind))
        flow = self.fabric.start(
            stream.path,
            float(stream.n_bytes),
            self._agenda.now,
            behind=behind,
            lag_bytes=self._chunk,
            weight=self._shares.next(stream.src, stream.dst),
            mark=stream.mark,
            then=stream.then,
        )
        stream.flow = flow
        self._flying[flow] = stream
        waiting, stream.waiting = stream.waiting, []
        for begin in waiting:
            begin()

    def _first_marks(self, stream: Stream, *, passes_on: bool) -> None:
        """Rates are seen from the first bytes on; of what is passed on, from the first chunk on."""
        last = stream.last_chunk_at
        if not self._watched or last == 0:
            return
        if passes_on:
            stream.mark, stream.then = min(self._chunk, last), min(2.0 * self._chunk, last)
        else:
            stream.mark, stream.then = min(2.0 * self._chunk, last), last
            stream.saw(0.0, self._agenda.now)

    def _has_turn(self, stream: Stream) -> bool:
        """Whether nothing of its shard is before it between its two hosts: those keep order."""
        queue = self._connections.setdefault(stream.connection, deque())
        if not queue or queue[0] is not stream:
            queue.append(stream)
        return queue[0] is stream

    def _leave(self, stream: Stream) -> None:
        """Its connection is free for the next one."""
        queue = self._connections.get(stream.connection)
        if queue and queue[0] is stream:
            queue.popleft()
            while queue and queue[0].cut_short:
                queue.popleft()
            if queue:
                self._flow(queue[0], ())

    def _look(self, flow: int, stream: Stream) -> None:
        moved, last = stream.mark, stream.last_chunk_at
        news = stream.saw(moved, self._agenda.now)
        if moved >= last:
            self._receivers[stream.dst].ending(stream)
            return
        if news:
            self._receivers[stream.dst].progress(stream)
        stream.mark, stream.then = stream.then, math.inf
        if stream.mark == math.inf:
            after = math.ceil(moved * MARK_GROWTH / self._chunk) * self._chunk
            self._mark(flow, stream, after if stream.unsteady else last)

    def _mark(self, flow: int, stream: Stream, wanted: float) -> None:
        """Look when `wanted` bytes are there, or all but the last chunk."""
        if stream.received_bytes < stream.last_chunk_at:
            stream.mark = min(wanted, stream.last_chunk_at)
            if stream.then <= stream.mark:
                stream.then = math.inf
            self.fabric.set_mark(flow, stream.mark, self._agenda.now)

    def _end(self, stream: Stream) -> None:
        stream.flow, stream.flowed = None, True
        stream.received_bytes = float(stream.n_bytes)
        self._leave(stream)
        arrives_s = self._agenda.now + stream.latency_s
        self._agenda.at(max(arrives_s, stream.announced_s), self._arrive, stream)

    def _arrive(self, stream: Stream) -> None:
        stream.done = True
        del self._open[stream]
        self._receivers[stream.dst].arrived(stream)

    def _lost(self, stream: Stream) -> None:
        self._receivers[stream.dst].record_transfer(stream)
