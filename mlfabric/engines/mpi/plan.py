"""What every rank is told before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlfabric.engines.plan import RunPlan

SCHEDULER_RANK = 0


@dataclass(frozen=True, kw_only=True)
class RankPlan(RunPlan):
    """One run, as its ranks see it; hosts are in rank order.

    `read_rates(now)` returns the bytes/s of every host at a time of the run's clock, where the
    emulator tells (oracle). With `paced`, links are shaped here, in user space, at those rates.
    Rows, snapshots and failures are written into `run_dir`; None: nothing is. With `fault_tolerant`
    a rank from which nothing is heard for `lost_after_s` is held for lost.
    """

    run_dir: Path | None
    read_rates: Callable[[float], Sequence[float]] | None
    paced: bool = False
    watchdog_s: float
    lost_after_s: float = 5.0
