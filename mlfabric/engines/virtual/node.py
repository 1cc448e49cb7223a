"""One virtual host, as roles see it (`roles.node.Node`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mlfabric.engines.plan import Trainer
from mlfabric.engines.roles.names import of_shard
from mlfabric.engines.roles.node import Header, Incoming, Outgoing
from mlfabric.engines.tallies import Tally
from mlfabric.engines.virtual.plan import VirtualPlan
from mlfabric.engines.virtual.streams import Stream
from mlfabric.events import Event, TransferDone, TransferEnding, TransferProgress
from mlfabric.payload import Payload, total

if TYPE_CHECKING:
    from mlfabric.engines.virtual.world import World

OnStream = Callable[[Incoming], None]

_NOTHING = Payload(0, None, np.empty(0, np.float32))


class VirtualNode:
    """A host whose messages and transfers take virtual time."""

    dense_sums = None

    def __init__(self, host: str, world: World) -> None:
        self.host = host
        self.plan: VirtualPlan = world.plan
        self.waits: dict[str, str] = {}
        self.tallies: dict[int, Tally] = {}
        self.held_version = 0
        self.on_settled: Callable[[int, bool], None] | None = None
        self.on_applied: Callable[[NDArray[Any], int], None] | None = None
        self.on_sent: Callable[[str, int], None] | None = None
        self.trainer: Trainer | None = None
        self.loaded = False
        self._lost_calls: list[Callable[[str], None]] = []
        self._world = world
        self._agenda = world.agenda
        self._nodes = world.nodes
        self._rows = world.rows
        self._delay_s = {host: 0.0}
        self.handlers: dict[str, Callable[[str, Any], None]] = {}
        self._receivers: dict[tuple[str, int], tuple[OnStream, OnStream]] = {}

    @property
    def stopping(self) -> bool:
        return self._world.over

    def now(self) -> float:
        return self._agenda.now

    # -- messages ----------------------------------------------------------------------------

    def on(self, kind: str, handler: Callable[[str, Any], None]) -> None:
        self.handlers[kind] = handler

    def send(self, host: str, kind: str, body: Any = None) -> None:
        delay_s = self._delay_s.get(host)
        if delay_s is None:
            hops = len(self.plan.context.topology.path(self.host, host))
            delay_s = self._delay_s[host] = self.plan.message_s + self.plan.hop_s * hops
        if self._world.losses is None:
            self._agenda.after(delay_s, self._nodes[host].handlers[kind], self.host, body)
        else:
            delay_s += self._world.losses.held_up_s(self.host, host)
            self._agenda.after(delay_s, self._deliver, host, kind, body)

    def _deliver(self, host: str, kind: str, body: Any) -> None:
        losses = self._world.losses
        if losses is not None and not losses.parted(self.host, host):
            self._nodes[host].handlers[kind](self.host, body)

    def on_lost(self, call: Callable[[str], None]) -> None:
        self._lost_calls.append(call)

    def told_lost(self, host: str) -> None:
        """This host learns that another one is lost."""
        for call in self._lost_calls:
            call(host)

    @property
    def _is_dead(self) -> bool:
        losses = self._world.losses
        return losses is not None and self.host in losses.dead

    def receive(self, kind: str, shard: int, announced: OnStream, complete: OnStream) -> None:
        self._receivers[kind, shard] = announced, complete

    def report(self, event: Event, shard: int) -> None:
        coordinators = self._world.coordinators
        if coordinators:
            self.send(coordinators[shard], of_shard("event", shard), event)

    def record(self, row: str, **values: Any) -> None:
        values["row"] = row
        self._rows.append(values)

    def snapshot(
        self, model: NDArray[Any], version: int, *, last: bool = False, shard: int = 0
    ) -> None:
        if not self._is_dead:
            self._world.changed(model, version, last=last, shard=shard)

    def follow(self, model: NDArray[Any], version: int, *, last: bool = False) -> None:
        self._world.replica = None if self._is_dead else model

    # -- streams -----------------------------------------------------------------------------

    def wire_bytes(self, payload: Payload) -> int:
        return self.plan.wire.bytes(payload)

    def stream(self, dst: str, header: Header, payload: Payload) -> Stream:
        return self._world.streams.send(self.host, dst, header, payload, self.wire_bytes(payload))

    def stream_zeros(self, dst: str, header: Header, n_bytes: int) -> Stream:
        return self._world.streams.send(self.host, dst, header, _NOTHING, n_bytes)

    def pass_on(self, stream: Incoming, dst: str, header: Header) -> Stream:
        assert isinstance(stream, Stream)
        payload, n_bytes = stream.payload(), stream.n_bytes
        return self._world.streams.send(self.host, dst, header, payload, n_bytes, [stream])

    def pass_on_sum(
        self, streams: Sequence[Incoming], known: Sequence[Payload], dst: str, header: Header
    ) -> Stream:
        """What will come is known already: only when it comes is simulated."""
        inputs = [stream for stream in streams if isinstance(stream, Stream)]
        payload = total([*known, *(stream.payload() for stream in inputs)])
        n_bytes = self.wire_bytes(payload)
        return self._world.streams.send(self.host, dst, header, payload, n_bytes, inputs)

    def cut(self, outgoing: Outgoing) -> None:
        assert isinstance(outgoing, Stream)
        self._world.streams.cut(outgoing)

    def announced(self, stream: Stream) -> None:
        """A stream to this host begins."""
        if self._is_dead:
            return
        announced, _ = self._receiver(stream)
        announced(stream)

    def arrived(self, stream: Stream) -> None:
        """A stream to this host is complete."""
        if self._is_dead:
            return
        self.record_transfer(stream)
        _, complete = self._receiver(stream)
        complete(stream)
        done = TransferDone(stream.header["transfer"], stream.n_bytes, stream.bytes_per_s)
        self.report(done, stream.header["shard"])

    def _receiver(self, stream: Stream) -> tuple[OnStream, OnStream]:
        return self._receivers[stream.header["kind"], stream.header["shard"]]

    def ending(self, stream: Stream) -> None:
        """All of a stream is here but its last chunk."""
        self.report(TransferEnding(stream.header["transfer"]), stream.header["shard"])

    def progress(self, stream: Stream) -> None:
        """The rate of a stream is news."""
        assert stream.bytes_per_s is not None
        received, header = int(stream.received_bytes), stream.header
        seen = TransferProgress(header["transfer"], received, stream.bytes_per_s)
        self.report(seen, header["shard"])

    def record_transfer(self, stream: Stream) -> None:
        """One row a transfer, complete or cut short."""
        header = stream.header
        self.record(
            "transfer",
            kind=header["kind"],
            shard=header["shard"],
            updates=header["updates"],
            src=stream.src,
            dst=header["final"],
            next_hop=self.host,
            bytes=round(stream.received_bytes),
            complete=not stream.cut_short,
            requested_s=min(header["requested_s"], stream.sent_s),
            started_s=stream.sent_s,
            ended_s=self.now(),
        )

    # -- computation -------------------------------------------------------------------------

    def compute(
        self, iteration: int, view: NDArray[Any], done: Callable[[int, Payload], None]
    ) -> None:
        """The real update is computed now, from the view as it is now, and is there in time."""
        payload, started_s = self._compute(view), self.now()
        worker = self.plan.worker_number[self.host]
        seconds = self.plan.computation_s(worker, iteration)
        row = (worker, iteration, started_s, seconds)
        self._agenda.after(seconds, self._computed, row, payload, done)

    def _compute(self, view: NDArray[Any]) -> Payload:
        if self.trainer is None:
            return _NOTHING
        if not self.loaded:
            self.trainer.load()
            self.loaded = True
        indices, values = self.trainer.compute(view)
        return Payload(len(view), indices, values).scaled(self.plan.step_scale)

    def _computed(
        self,
        row: tuple[int, int, float, float],
        payload: Payload,
        done: Callable[[int, Payload], None],
    ) -> None:
        if self._is_dead:
            return
        worker, iteration, started_s, seconds = row
        self.record(
            "computation",
            worker=worker,
            iteration=iteration,
            started_s=started_s,
            real_s=0.0,
            emulated_s=seconds,
            overran=False,
        )
        done(iteration, payload)

    # -- alarms ------------------------------------------------------------------------------

    def wake_at(self, at_s: float, call: Callable[[], None]) -> None:
        self._agenda.at(at_s, lambda: None if self._is_dead else call())

    def watch_rates(self, tell: Callable[[str, float], None]) -> None:
        self._world.rate_watchers.append(tell)
