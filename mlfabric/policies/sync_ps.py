"""Synchronous parameter server: all send to it, it applies the sum, all get the new model."""

from __future__ import annotations

from typing import Literal

from mlfabric.policies.base import MomentumOptions, PolicyContext
from mlfabric.policies.parts.synchronous import SyncServer

PLACE: Literal["server"] = "server"
SENDS_AT_ONCE = True
Options = MomentumOptions


def build(context: PolicyContext) -> SyncServer:
    """The coordinator, which runs beside the server."""
    return SyncServer(context, needed=len(context.workers))
