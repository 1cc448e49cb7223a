"""One rank of a schedule's run: `python -m experiments.faults.rank RUN_DIR SEED`."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.faults.counting import COMPUTE_S, RATE, Counting, computation_s, context_of
from experiments.faults.real import REAL_SIZE, SECONDS, real_schedule
from experiments.mpi_library import this_rank
from mlfabric.emulation.hosts import enter
from mlfabric.engines.mpi.keeper import Keeper
from mlfabric.engines.mpi.plan import RankPlan


def main(run_dir: Path, seed: int) -> None:
    """Play this rank's part."""
    schedule = real_schedule(seed)
    enter(schedule.hosts[this_rank()])
    keeper = Keeper()
    from mlfabric.engines.mpi.main import run  # MPI opens its sockets where the process is

    plan = RankPlan(
        run_dir=run_dir,
        hosts=schedule.hosts,
        policy=schedule.policy,
        context=context_of(schedule),
        conserved=True,
        step_scale=1.0,
        nominal_s=COMPUTE_S,
        computation_s=computation_s,
        read_rates=lambda now: [RATE] * len(schedule.hosts),
        max_seconds=SECONDS,
        snapshot_interval_s=0.25,
        watchdog_s=SECONDS,
        faults=schedule.faults,
        fault_tolerant=True,
    )
    run(plan, lambda worker: Counting(worker, REAL_SIZE), keeper=keeper)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
