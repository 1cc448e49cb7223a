"""One MPI rank: `python -m experiments.rank RUN_DIR`, started by mpiexec with a finished config."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from experiments.build import build_workload
from experiments.mpi_library import this_rank
from experiments.mpiexec import EMULATION_VARIABLE
from experiments.plan import hosts
from experiments.rank_plan import rank_plan
from experiments.schema import read_config
from mlfabric.emulation.hosts import enter
from mlfabric.emulation.rates import RateBoard


def main(run_dir: Path) -> None:
    """Play this rank's part; tell why if it cannot even start."""
    try:
        _play(run_dir)
    except Exception:
        rank = this_rank()
        story = f"rank {rank}: {traceback.format_exc()}"
        (run_dir / f"failure-{rank}.txt").write_text(story, encoding="utf-8")
        raise


def _play(run_dir: Path) -> None:
    config = read_config(run_dir / "config.json")
    emulated = os.environ[EMULATION_VARIABLE] == "netns"
    if emulated:
        enter(hosts(config)[this_rank()])
    read_rates = RateBoard(run_dir / "rates.bin").read if emulated else None
    workload = build_workload(config)
    plan = rank_plan(config, run_dir, workload.conserved, read_rates)
    # Only now: MPI opens its sockets where the process is when it is imported.
    from mlfabric.engines.mpi.main import run

    run(plan, lambda worker: workload.trainer(worker, config.cluster.workers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
