"""What a communication policy is to an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mlfabric.actions import Action
from mlfabric.events import Event
from mlfabric.payload import Payload


@dataclass(frozen=True)
class PolicyContext:
    """The cluster and the model that a policy works with.

    `options` are the settings of the policy's own config, checked before they come here.
    """

    server: str
    workers: tuple[str, ...]
    line_bytes_per_s: Mapping[str, float]
    model_bytes: int
    chunk_bytes: int
    straggler_period_s: float
    seed: int
    options: Mapping[str, Any]


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
