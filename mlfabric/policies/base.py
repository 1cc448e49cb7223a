"""What a communication policy is to an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mlfabric.actions import Action
from mlfabric.events import Event
from mlfabric.payload import Payload
from mlfabric.topology import BIG_SWITCH, Topology


@dataclass(frozen=True)
class PolicyContext:
    """The cluster and the model that a policy works with.

    `line_bytes_per_s` names every host, and every switch of the `topology`, whose uplink has that
    rate both ways. `options` are the settings of the policy's own config, checked before they come
    here.
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


class Coordinator(Protocol):
    """The central state machine of a policy with a server.

    With `reads_rates` it is told the emulator's current rates by `RateMeasured`.
    """

    version: int

    @property
    def reads_rates(self) -> bool: ...

    def handle(self, event: Event, now: float) -> list[Action]: ...


@dataclass(frozen=True)
class Message:
    """A part of a collective operation on its way from one worker to another."""

    dst: int
    key: tuple[int, ...]
    payload: Payload


class Collective(Protocol):
    """One worker's side of one synchronous sum over all workers; workers are numbered from 0."""

    def start(self, update: Payload) -> list[Message]:
        """The messages to send first."""

    def receive(self, key: tuple[int, ...], payload: Payload) -> list[Message]:
        """The messages that a received one allows."""

    def result(self) -> Payload | None:
        """The sum over all workers, None until it is complete."""


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
