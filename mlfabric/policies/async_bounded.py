"""As `async_ps`, but late updates are dropped at the server, after they crossed the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlfabric.policies.base import DelayBound, PolicyContext
from mlfabric.policies.parts.asynchronous import AsyncServer
from mlfabric.policies.parts.steps import StepOptions

PLACE: Literal["server"] = "server"
SENDS_AT_ONCE = True


@dataclass(frozen=True)
class Options(StepOptions):
    """`delay_bound`: an update later than this, in versions, is dropped as it arrives."""

    delay_bound: DelayBound


def build(context: PolicyContext) -> AsyncServer:
    """The coordinator, which runs beside the server."""
    return AsyncServer(context, context.options["delay_bound"])
