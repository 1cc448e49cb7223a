"""What a role needs of the host that it runs on; every engine has one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from mlfabric.engines.plan import RunPlan
from mlfabric.engines.tallies import Tally
from mlfabric.events import Event
from mlfabric.payload import Payload
from mlfabric.policies.base import Piece
from mlfabric.treesum import Side

Header = dict[str, Any]


def story(waits: Mapping[str, str]) -> str:
    """What a host waits for, in words."""
    return ", ".join(waits.values()) or "the end of the run"


class Outgoing(Protocol):
    """Bytes being sent."""

    @property
    def done(self) -> bool: ...


class OutgoingSum(Outgoing, Protocol):
    """A sum being sent, and what it is once all that it is made of has come."""

    def payload(self) -> Payload: ...


class Incoming(Protocol):
    """Bytes being received: what their sender said of them, and what they are once complete."""

    @property
    def header(self) -> Header: ...

    @property
    def done(self) -> bool: ...

    def payload(self) -> Payload: ...


class DenseSums(Protocol):
    """Sums dense vectors of all workers, one after another."""

    def takes(self, pieces: Sequence[Piece]) -> bool:
        """Whether it can sum a vector that is cut so."""

    def start(
        self,
        number: int,
        side: Side,
        values: NDArray[Any],
        on_part: Callable[[int, int, int], None],
        done: Callable[[NDArray[Any], Sequence[int]], None],
    ) -> None:
        """Begin operation `number`; `on_part(worker, piece, bytes)` tells of each sum so far that
        comes, `done(sum, bytes sent to each worker)` of the end. Until then `values` must stay."""


class Node(Protocol):
    """One host. A handler is called with (source host, message body).

    A stream's header holds `kind`, `shard` (whose server's share it belongs to), `updates`,
    `transfer` (its name, where a coordinator follows it), `final` (the host that it is meant for in
    the end) and `requested_s`.
    """

    host: str
    tallies: dict[int, Tally]
    """What is counted on this host, by shard."""

    waits: dict[str, str]
    """What each part of this host waits for, for whoever looks why nothing moves."""
    held_version: int
    """Version of the model that a worker holds."""

    on_settled: Callable[[int, bool], None] | None
    """Told (iteration, whether applied) when a worker hears what became of its update."""

    on_applied: Callable[[NDArray[Any], int], None] | None
    """Told (model, version) when a server, or a replica, has applied something."""

    on_sent: Callable[[str, int], None] | None
    """Told (worker, version) when a server begins to send a model meant for a worker."""

    @property
    def plan(self) -> RunPlan: ...

    @property
    def stopping(self) -> bool: ...

    def now(self) -> float:
        """Seconds of the run's clock."""

    @property
    def dense_sums(self) -> DenseSums | None:
        """The engine's own way to sum dense vectors over all workers, where it has one."""

    def on(self, kind: str, handler: Callable[[str, Any], None]) -> None:
        """Call `handler` for messages of this kind."""

    def send(self, host: str, kind: str, body: Any = None) -> None:
        """Send a message; order is kept for each receiver."""

    def on_lost(self, call: Callable[[str], None]) -> None:
        """Call with the name of every host that is lost from now on; what is sent there is gone."""

    def receive(
        self,
        kind: str,
        shard: int,
        announced: Callable[[Incoming], None],
        complete: Callable[[Incoming], None],
    ) -> None:
        """Call `announced` when a stream of this kind to this host begins, and `complete` once all
        of it is here, before the coordinator hears of it."""

    def report(self, event: Event, shard: int) -> None:
        """Tell the shard's coordinator."""

    def wire_bytes(self, payload: Payload) -> int:
        """Bytes that a payload takes on the wire."""

    def stream(self, dst: str, header: Header, payload: Payload) -> Outgoing:
        """Start to send a payload; one for this host itself crosses no link."""

    def stream_zeros(self, dst: str, header: Header, n_bytes: int) -> Outgoing:
        """Start to send bytes that mean nothing."""

    def pass_on(self, stream: Incoming, dst: str, header: Header) -> Outgoing:
        """Send on what arrives, as it is and as it comes."""

    def pass_on_sum(
        self, streams: Sequence[Incoming], known: Sequence[Payload], dst: str, header: Header
    ) -> OutgoingSum:
        """Send on the sum of what arrives and of what is here, as it comes."""

    def cut(self, outgoing: Outgoing) -> None:
        """Stop sending."""

    def compute(
        self, iteration: int, view: NDArray[Any], done: Callable[[int, Payload], None]
    ) -> None:
        """Compute an update from the view, which nobody changes meanwhile; then call `done`."""

    def wake_at(self, at_s: float, call: Callable[[], None]) -> None:
        """Call at a time of the run's clock."""

    def watch_rates(self, tell: Callable[[str, float], None]) -> None:
        """Call `tell(host, bytes_per_s)` whenever the emulator changes a host's rate."""

    def record(self, row: str, **values: Any) -> None:
        """Note a row of kind `row`."""

    def snapshot(
        self, model: NDArray[Any], version: int, *, last: bool = False, shard: int = 0
    ) -> None:
        """Offer a shard of the model to whoever scores it; taken if one is due, or the last one."""

    def follow(self, model: NDArray[Any], version: int, *, last: bool = False) -> None:
        """Offer the replica, to be compared with the model whenever that is scored."""
