"""What every rank is told before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mlfabric.policies.base import PolicyContext

SCHEDULER_RANK = 0
SERVER_RANK = 1
FIRST_WORKER_RANK = 2


class Trainer(Protocol):
    """What a worker computes with; see `workloads.base.Trainer`."""

    def warm_up(self) -> None: ...

    def load(self) -> None: ...

    def compute(self, view: NDArray[Any]) -> tuple[NDArray[np.int32] | None, NDArray[Any]]: ...


@dataclass(frozen=True)
class RankPlan:
    """One run, as its ranks see it.

    `hosts` are in rank order: scheduler, server, workers. `conserved`: updates are counts, a
    dropped one is added to the next. `computation_s(worker, iteration)` is how long one
    computation takes, stragglers included; `nominal_s` without them. `read_rates` returns the
    current bytes/s of every host, where the emulator tells (oracle).
    """

    run_dir: Path
    hosts: tuple[str, ...]
    policy: str
    context: PolicyContext
    conserved: bool
    step_scale: float
    nominal_s: float
    computation_s: Callable[[int, int], float]
    read_rates: Callable[[], Sequence[float]] | None
    max_seconds: float
    snapshot_interval_s: float
    watchdog_s: float

    def rank_of(self, host: str) -> int:
        return self.hosts.index(host)
