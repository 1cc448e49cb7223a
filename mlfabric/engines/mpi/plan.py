"""What every rank is told before it starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlfabric.checkpoints import Checkpoint
from mlfabric.engines.plan import RunPlan

SCHEDULER_RANK = 0


@dataclass(frozen=True, kw_only=True)
class RankPlan(RunPlan):
    """One run, as its ranks see it; hosts are in rank order.

    `read_rates(now)` returns the bytes/s of every host at a time of the run's clock, where the
    emulator tells (oracle). With `paced`, links are shaped here, in user space, at those rates.
    Rows, snapshots and failures are written into `run_dir`; None: nothing is. With `fault_tolerant`
    a rank from which nothing is heard for `lost_after_s` is held for lost. The run goes on from
    `checkpoint`, where there is one; others are made every `checkpoint_interval_s`, or only when
    they are asked for; `part` counts how often the run was begun or gone on with.
    """

    run_dir: Path | None
    read_rates: Callable[[float], Sequence[float]] | None
    paced: bool = False
    watchdog_s: float
    lost_after_s: float = 5.0
    checkpoint: Checkpoint | None = None
    checkpoint_interval_s: float | None = None
    part: int = 1

    @property
    def begins_at_s(self) -> float:
        """What the run's clock shows when it starts."""
        return 0.0 if self.checkpoint is None else self.checkpoint.elapsed_s
