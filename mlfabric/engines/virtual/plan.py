"""What the virtual engine is told of a run before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mlfabric.emulation.spec import RateEvent
from mlfabric.engines.plan import RunPlan
from mlfabric.payload import Payload, wire_size
from mlfabric.topology import Link


@dataclass(frozen=True)
class Wire:
    """How large a payload is on the virtual wire.

    `byte_scale` multiplies every size, so that a small model stands in for a large one. With
    `nominal_bytes` nothing is computed and every update and model, of several servers each shard's
    part of it, has that size (timing only).
    """

    byte_scale: float = 1.0
    nominal_bytes: int | None = None

    def bytes(self, payload: Payload) -> int:
        """Bytes that a payload takes."""
        if self.nominal_bytes is not None:
            return self.nominal_bytes
        return round(wire_size(payload) * self.byte_scale)


@dataclass(frozen=True, kw_only=True)
class VirtualPlan(RunPlan):
    """One run on the virtual clock.

    `link_bytes_per_s` holds every link of `context.topology`; `rate_events` are the straggler
    trace. `message_s` is how long a control message takes from its sender to its handler, `hop_s`
    the latency of one link, `startup_s` the time from the order to send until bytes flow at full
    rate, `goodput` the payload's share of a link's rate. With `reserved_rates`, transfers that a
    scheduler starts keep what they took, in the order of their start; else flows share links as
    TCP has them: max-min fairly by weights, lognormal with a standard deviation of the logarithm
    of `share_spread`, of each transfer. `collective`: whether a ring is one flow or every
    message of it. The run ends after `max_seconds`, or `max_updates` applied. A host that has died
    is known to be lost after `lost_after_s`.
    """

    link_bytes_per_s: Mapping[Link, float]
    rate_events: tuple[RateEvent, ...]
    max_updates: int | None
    wire: Wire
    message_s: float
    hop_s: float
    startup_s: float
    share_spread: float
    goodput: float
    reserved_rates: bool
    collective: Literal["flow", "messages"]
    lost_after_s: float = 0.1
