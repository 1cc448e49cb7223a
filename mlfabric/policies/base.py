"""What a communication policy is to an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from mlfabric.actions import Action
from mlfabric.events import Event
from mlfabric.payload import Payload
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


DelayBound = Annotated[int, AtLeast(0)] | Literal["auto", "none"] | None
"""In settings, null or auto stand for 2 (workers - 1), none for no bound; a policy is told the
number, or None where there is no bound."""


@dataclass(frozen=True)
class NoOptions:
    """A policy that has none."""


@dataclass(frozen=True)
class MomentumOptions:
    """`momentum` of whoever applies the sum: v <- momentum * v + sum of updates; w <- w + v."""

    momentum: Annotated[float, AtLeast(0.0), Below(1.0)]


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


class Message(NamedTuple):
    """A part of a collective operation on its way from worker `src` to worker `dst`.

    `told` are numbers that the receiver is to know besides.
    """

    src: int
    dst: int
    key: tuple[int, ...]
    payload: Payload
    told: tuple[float, ...] = ()


class Collective(Protocol):
    """One worker's side of one synchronous sum over all workers; workers are numbered from 0."""

    def start(self, update: Payload, now: float) -> list[Message]:
        """The messages to send first."""

    def receive(self, message: Message, now: float) -> list[Message]:
        """The messages that a received one allows; some may come before `start`."""

    def result(self) -> Payload | None:
        """The sum over all workers, None until it is complete."""


Operations = Callable[[], Collective]
"""Makes one worker's side of the next operation, one after another."""


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
