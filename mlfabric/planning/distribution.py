"""A tree over which a model version reaches the workers that wait for it [ours]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlfabric.planning.kernels import spreading
from mlfabric.planning.profile import Piece
from mlfabric.planning.residual import Residual


@dataclass(frozen=True)
class Edge:
    """`src` passes the model on to `dst`, chunk by chunk, in `pieces`."""

    src: str
    dst: str
    pieces: tuple[Piece, ...]

    @property
    def end_s(self) -> float:
        """When `dst` holds all of it."""
        return self.pieces[-1].end


def plan_tree(
    server: str,
    receivers: Sequence[str],
    residual: Residual,
    n_bytes: float,
    chunk_bytes: float,
    now: float,
) -> tuple[Edge, ...]:
    """Attach each receiver where the model reaches it first, the fastest receivers first.

    A receiver passes on every chunk that it has all of. Between equal ends a receiver is preferred
    to the server (R1), the earlier one among receivers. Edges come parents first. `residual` is
    left as it is; a receiver that never gets all of it has a last piece that ends at infinity.
    """
    row, hosts = residual.network.host_row, residual.network.hosts
    rows = np.array([row[host] for host in receivers], dtype=np.int64)
    (found,) = residual.work_out(
        lambda net: spreading.spread(
            net, row[server], rows, float(n_bytes), float(chunk_bytes), float(now)
        )
    )
    names = [hosts[at] for at in found.order]
    return tuple(
        Edge(
            server if found.parent[i] < 0 else names[found.parent[i]],
            names[i],
            tuple(map(Piece._make, found.pieces[found.first[i] : found.first[i + 1]].tolist())),
        )
        for i in range(len(names))
    )
