"""Stale synchronous parallel parameter server: as `async_ps`, fast workers wait for slow ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlfabric.policies.base import PolicyContext
from mlfabric.policies.parts.asynchronous import AsyncServer
from mlfabric.policies.parts.staleness import StalenessGate, StalenessOptions
from mlfabric.policies.parts.steps import StepOptions

PLACE: Literal["server"] = "server"
SENDS_AT_ONCE = True


@dataclass(frozen=True)
class Options(StepOptions, StalenessOptions):
    """How stale, and how large steps are."""


def build(context: PolicyContext) -> StalenessGate:
    """The coordinator, which runs beside the server."""
    return StalenessGate(AsyncServer(context), context)
