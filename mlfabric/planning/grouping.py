"""Who is summed with whom and where, and the transfers and commits that it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlfabric.events import Update
from mlfabric.planning.batch import Batch, Dropped, Group, Plan, PlannedTransfer
from mlfabric.planning.commits import commit_times
from mlfabric.planning.kernels import forwarding
from mlfabric.planning.residual import Residual


@dataclass(frozen=True)
class Hop:
    """A sum of members (one or more) goes from `src` to `dst`."""

    members: tuple[Update, ...]
    src: str
    dst: str


@dataclass(frozen=True)
class Shape:
    """A group before anything is reserved: its hops, a host's inputs before its output.

    The last hop ends at the server. In a `chunked` group, hosts pass sums on chunk by chunk.
    """

    members: tuple[Update, ...]
    hops: tuple[Hop, ...]
    chunked: bool = False

    @property
    def via(self) -> str | None:
        """The host that the group's sum crosses from; None for a single update."""
        return self.hops[-1].src if len(self.members) > 1 else None


def direct(update: Update, server: str) -> Shape:
    """A group of one, sent straight to the server."""
    return Shape((update,), (Hop((update,), update.worker, server),))


def summed(members: Sequence[Update], via: str, server: str) -> Shape:
    """Members collected at `via`, where its own are already, whose sum crosses to the server."""
    collecting = [Hop((u,), u.worker, via) for u in members if u.worker != via]
    return Shape(tuple(members), (*collecting, Hop(tuple(members), via, server)))


def realize(batch: Batch, shapes: Sequence[Shape], dropped: tuple[Dropped, ...] = ()) -> Plan:
    """Reserve the transfers of groups, given in priority order; groups come in commit order."""
    residual = batch.residual.copy()
    left_at: dict[str, float] = {}
    moved = [realize_shape(batch, shape, residual, left_at) for shape in shapes]
    arrivals = [transfers[-1].end_s for transfers in moved]
    commits = commit_times([s.members for s in shapes], arrivals, batch.version, batch.delay_bound)
    groups, version = [], batch.version
    for index, commit_s in commits:
        shape = shapes[index]
        groups.append(
            Group(
                shape.members,
                shape.via,
                moved[index],
                arrivals[index],
                commit_s,
                version,
                shape.chunked,
            )
        )
        version += len(shape.members)
    return Plan(tuple(groups), dropped, residual)


def realize_shape(
    batch: Batch, shape: Shape, residual: Residual, left_at: dict[str, float]
) -> tuple[PlannedTransfer, ...]:
    """Reserve the transfers of one group on `residual`.

    `left_at` tells when the last sum has left each aggregator: it does not collect before. The
    group's own is noted there.
    """
    via = shape.via
    since = left_at.get(via, batch.now) if via and not shape.chunked else batch.now
    transfers = []
    arriving: dict[str, list[PlannedTransfer]] = {}
    for hop in shape.hops:
        names = {update.id for update in hop.members}
        inputs = [t for t in arriving.get(hop.src, ()) if names.issuperset(t.updates)]
        transfer = _move(batch, hop, inputs, residual, since, shape.chunked)
        transfers.append(transfer)
        arriving.setdefault(hop.dst, []).append(transfer)
    if via:
        left_at[via] = transfers[-1].end_s
    return tuple(transfers)


def _move(
    batch: Batch,
    hop: Hop,
    inputs: Sequence[PlannedTransfer],
    residual: Residual,
    since: float,
    chunked: bool,
) -> PlannedTransfer:
    own = [batch.ready_s(update) for update in hop.members if update.worker == hop.src]
    n_bytes = batch.sum_bytes(hop.members)
    if chunked and inputs:
        curve = _passed_on(batch, hop, inputs, own)
        pieces = residual.reserve_forwarding(hop.src, hop.dst, n_bytes, curve)
    else:
        ready = max([since, *own, *(transfer.end_s for transfer in inputs)])
        pieces = residual.reserve(hop.src, hop.dst, ready, n_bytes)
    names = tuple([update.id for update in hop.members])
    return PlannedTransfer(names, hop.src, hop.dst, pieces)


def _passed_on(
    batch: Batch, hop: Hop, inputs: Sequence[PlannedTransfer], own: Sequence[float]
) -> NDArray[np.float64]:
    """What a host may pass on over time: the least of what has come in of each input."""
    curves = [np.array([(max(own), 0.0), (max(own), 1.0)])] if own else []
    for transfer in inputs:
        carried = set(transfer.updates)
        sizes = [update for update in hop.members if update.id in carried]
        pieces = np.array(transfer.pieces)
        curves.append(forwarding.arriving(pieces, batch.sum_bytes(sizes), batch.chunk_bytes))
    lowest = curves[0]
    for curve in curves[1:]:
        lowest = forwarding.lowest(lowest, curve)
    return lowest
