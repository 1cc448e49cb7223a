"""Synchronous parameter server with backup workers: the slowest of an iteration do not count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mlfabric.policies.base import AtLeast, MomentumOptions, PolicyContext
from mlfabric.policies.parts.synchronous import SyncServer

PLACE: Literal["server"] = "server"
SENDS_AT_ONCE = True


@dataclass(frozen=True)
class Options(MomentumOptions):
    """`backups`: updates of an iteration that are not waited for (Chen et al., 2016)."""

    backups: Annotated[int, AtLeast(0)]


def build(context: PolicyContext) -> SyncServer:
    """The coordinator, which runs beside the server; one update an iteration is always needed."""
    return SyncServer(context, needed=max(len(context.workers) - context.options["backups"], 1))
