"""What one planning decision depends on, and what it comes to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mlfabric.events import Update
from mlfabric.planning.kernels.jobs import Sites
from mlfabric.planning.profile import Piece
from mlfabric.planning.residual import Residual

OrderingRule = Literal["shortest", "delay_aware"]
Aggregation = Literal["none", "paper", "refined", "pipelined"]

PATIENCES = (0.0, 1.0, 4.0, 16.0)
"""How much a pipelined group may be held up for one more member, as multiples of its gain."""


@dataclass(frozen=True)
class Batch:
    """Updates that wait for one server, and everything that decides how they get there.

    `residual` is what the links have free; planning leaves it as it is. `version` counts every
    commit that comes before this batch, `delay_bound` is in versions (None: no bound).
    `aggregators` are the hosts that may sum, in the order in which they are tried; with `best_fit`
    all are tried for every group. With `reuse` an aggregator may collect again once its sum has
    left. `model_bytes` bounds the size of a sum (None: a sum is as large as its largest member).
    Pipelined sums are forwarded in chunks of `chunk_bytes`; all `patiences` are tried for them.
    Until `busy_until_s` the server's link is taken by earlier batches: groups may be collected
    meanwhile. Times in seconds.
    """

    updates: tuple[Update, ...]
    residual: Residual
    server: str
    now: float = 0.0
    version: int = 0
    delay_bound: int | None = None
    ordering: OrderingRule = "shortest"
    aggregation: Aggregation = "paper"
    aggregators: tuple[str, ...] = ()
    best_fit: bool = False
    reuse: bool = True
    model_bytes: int | None = None
    chunk_bytes: int = 65536
    patiences: tuple[float, ...] = PATIENCES
    busy_until_s: float = -math.inf

    def ready_s(self, update: Update) -> float:
        """When it can be sent at the earliest."""
        return max(update.ready_s, self.now)

    def sites(self) -> Sites:
        """Server and aggregators as the compiled loops take them."""
        row = self.residual.network.host_row
        return Sites(
            server=row[self.server],
            aggregators=np.array([row[host] for host in self.aggregators], dtype=np.int64),
            best_fit=self.best_fit,
            reuse=self.reuse,
            model_bytes=float(-1 if self.model_bytes is None else self.model_bytes),
            busy_until=max(self.busy_until_s, self.now),
            now=self.now,
        )

    def sum_bytes(self, members: Sequence[Update]) -> int:
        """Size of a sum on the wire: never more than its parts, nor than the dense model."""
        if len(members) == 1:
            return members[0].bytes
        largest = max(update.bytes for update in members)
        bound = max(self.model_bytes or largest, largest)
        return min(sum(update.bytes for update in members), bound)


@dataclass(frozen=True)
class Dropped:
    """An update left out, with the delay in versions that it would have had."""

    update: Update
    delay: int


@dataclass(frozen=True)
class PlannedTransfer:
    """`updates` (one, or the members of a sum) cross from `src` to `dst` in `pieces`."""

    updates: tuple[str, ...]
    src: str
    dst: str
    pieces: tuple[Piece, ...]

    @property
    def end_s(self) -> float:
        """When its last byte arrives."""
        return self.pieces[-1].end


@dataclass(frozen=True)
class Group:
    """Updates that the server commits together.

    `via` is the host from which their sum crosses to the server, None for one sent directly. It
    is complete at the server at `arrival_s`, and applied at `commit_s` as version `version_before`
    becomes the next. `transfers` end with the one that brings it to the server. In a `chunked`
    group, hosts pass sums on chunk by chunk.
    """

    members: tuple[Update, ...]
    via: str | None
    transfers: tuple[PlannedTransfer, ...]
    arrival_s: float
    commit_s: float
    version_before: int
    chunked: bool = False


@dataclass(frozen=True)
class Plan:
    """Groups in commit order, what is dropped, and what the links have left after it."""

    groups: tuple[Group, ...]
    dropped: tuple[Dropped, ...]
    residual: Residual

    @property
    def mean_completion_s(self) -> float:
        """Mean time at which the updates kept are committed; 0 when none is."""
        ends = [group.commit_s for group in self.groups for _ in group.members]
        return sum(ends) / len(ends) if ends else 0.0
