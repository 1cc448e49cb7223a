"""Bounds that physics sets to the updates applied a second, whatever a policy does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.errors import AnalysisError

Counts = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """Throughput bounds for n workers, in updates a second."""

    compute_s: float  # C: one update's computation
    rate_bytes_per_s: float  # B: one host's link, each way
    update_bytes: float  # S: one update
    servers: int = 1  # m: each receives a part of every update

    def compute(self, workers: Counts) -> Counts:
        """n/C: nobody ever waits."""
        return workers / self.compute_s

    def server_link(self, workers: Counts) -> Counts:
        """m B/S: the servers receive every update by themselves."""
        return np.full_like(workers, self.servers * self.rate_bytes_per_s / self.update_bytes)

    def ring(self, workers: Counts) -> Counts:
        """n / (C + 2 (n - 1)/n S/B): all compute, then every link carries the ring's bytes."""
        transfer_s = self.update_bytes / self.rate_bytes_per_s
        return workers / (self.compute_s + 2 * (workers - 1) / workers * transfer_s)


def bounds_of(config: dict[str, Any]) -> Bounds:
    """The bounds of a run, from its resolved configuration; raises AnalysisError without a size."""
    cluster = config["cluster"]
    size = cluster.get("update_bytes")
    if size is None:
        raise AnalysisError(f"cluster.update_bytes={size}: scale needs the bytes of an update")
    servers = cluster.get("servers", 1)
    return Bounds(cluster["compute_s"], cluster["bandwidth_bytes_per_s"], size, servers)
