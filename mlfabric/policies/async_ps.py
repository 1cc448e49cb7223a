"""Asynchronous parameter server: transfers whenever ready, the network shared fairly by TCP."""

from __future__ import annotations

from typing import Literal

from mlfabric.policies.base import PolicyContext
from mlfabric.policies.parts.asynchronous import AsyncServer
from mlfabric.policies.parts.steps import StepOptions

PLACE: Literal["server"] = "server"
SENDS_AT_ONCE = True
Options = StepOptions


def build(context: PolicyContext) -> AsyncServer:
    """The coordinator, which runs beside the server."""
    return AsyncServer(context)
