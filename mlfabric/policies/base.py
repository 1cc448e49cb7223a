"""What a communication policy is to an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol, runtime_checkable

from mlfabric.actions import Action
from mlfabric.events import Event
from mlfabric.topology import BIG_SWITCH, Topology

Place = Literal["scheduler", "server", "workers", "library"]
"""Where a policy's logic runs: on the scheduler's host, on the server's, on every worker as its
side of a synchronous sum, or in the MPI library, of which it is a collective."""


@dataclass(frozen=True)
class AtLeast:
    """In `Annotated`: the smallest value that an option may have."""

    value: float


@dataclass(frozen=True)
class Below:
    """In `Annotated`: an option must be less."""

    value: float


DelayBound = Annotated[int, AtLeast(0), Below(1_000_000)] | Literal["auto", "none"] | None
"""In settings, null or auto stand for 2 (workers - 1), none for no bound; a policy is told the
number, or None where there is no bound."""


@dataclass(frozen=True)
class MomentumOptions:
    """`momentum` of whoever applies the sum: v <- momentum * v + sum of updates; w <- w + v."""

    momentum: Annotated[float, AtLeast(0.0), Below(1.0)]


@dataclass(frozen=True)
class Replication:
    """A host that keeps a second copy of the model, and how that follows the server's.

    `chain`: the server forwards what it is to apply, and applies it once the replica has.
    `bounded`: workers and aggregators send the replica what they have sent the server, whose model
    is never further from the replica's than `divergence_bound` (L2; L1 for counts) [paper]. Where
    that is None, it is `bound_rounds` times the norms of the run's first updates, one a worker
    [ours].
    """

    host: str
    kind: Literal["chain", "bounded"]
    divergence_bound: float | None = None
    bound_rounds: float = 8.0


@dataclass(frozen=True)
class PolicyContext:
    """The cluster and the model that a policy works with.

    `line_bytes_per_s` names every host, and every switch of the `topology`, whose uplink has that
    rate both ways. `options` are the settings of the policy's own config, checked before they come
    here. `byte_scale` is how many bytes of the wire a byte of a payload takes.
    """

    server: str
    workers: tuple[str, ...]
    line_bytes_per_s: Mapping[str, float]
    model_bytes: int
    chunk_bytes: int
    straggler_period_s: float
    seed: int
    options: Mapping[str, Any]
    topology: Topology = BIG_SWITCH
    byte_scale: float = 1.0
    replication: Replication | None = None

    @property
    def copies_are_kept(self) -> bool:
        """Whether hosts keep what they have sent the server, to send it to the replica too."""
        return self.replication is not None and self.replication.kind == "bounded"

    @property
    def payload_chunk_bytes(self) -> int:
        """How much of a payload is one chunk on the wire."""
        return max(int(self.chunk_bytes / self.byte_scale), 1)


class Coordinator(Protocol):
    """The central state machine of a policy with a server.

    With `reads_rates` it is told the emulator's current rates by `RateMeasured`.
    """

    @property
    def version(self) -> int: ...

    @property
    def reads_rates(self) -> bool: ...

    def handle(self, event: Event, now: float) -> list[Action]: ...

    def memory(self) -> Any:
        """What it needs besides the version to go on in another process, for pickle; or None."""

    def begin_at(self, version: int, memory: Any) -> None:
        """The run goes on with a model of this version, which all workers hold, and with what
        another one's `memory` was, where that is known."""


@runtime_checkable
class SumsOnDemand(Protocol):
    """A coordinator that can be made to sum, for faults in the middle of that."""

    def sum_next(self) -> None:
        """Sum the next two updates at a host, worthwhile or not."""


class Piece(NamedTuple):
    """Entries `begin` to `end` of a vector, and the trees by which they are summed and spread.

    Worker w adds what its children in `up` send to its own part, and sends the sum to up[w]; the
    root, up[root] = root, so has the result. Worker w gets that from down[w], and sends it to its
    children in `down`. Workers are numbered from 0.
    """

    begin: int
    end: int
    up: tuple[int, ...]
    down: tuple[int, ...]

    @property
    def root(self) -> int:
        """Who has the sum of all first."""
        return next(worker for worker, parent in enumerate(self.up) if parent == worker)


class Sums(Protocol):
    """How vectors are summed over all workers, one after another; the same on each of them.

    With `measures` it is to be told what links carry in the operation whose pieces were last asked
    for.
    """

    @property
    def measures(self) -> bool: ...

    def pieces(self, size: int, item_bytes: int) -> Sequence[Piece]:
        """The next vector's pieces, in the order in which they are to be sent."""

    def learn(self, bytes_per_s: Mapping[int, float]) -> None:
        """What workers' links were last seen to carry."""


@dataclass(frozen=True)
class Rounds:
    """A collective operation from afar: rounds in which every worker sends to the next one.

    In each round a worker sends `lanes` messages of `message_bytes[round]`, each as soon as it has
    received that lane's message of the round before. A worker has the result once it has received
    all messages.
    """

    message_bytes: tuple[float, ...]
    lanes: int

    @property
    def bytes(self) -> float:
        """What one worker sends in all."""
        return self.lanes * sum(self.message_bytes)
