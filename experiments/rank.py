"""One MPI rank: `python -m experiments.rank RUN_DIR`, started by mpiexec with a finished config."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments.build import build_workload
from experiments.mpi_library import this_rank
from experiments.mpiexec import EMULATION_VARIABLE
from experiments.plan import rate_events
from experiments.rank_plan import rank_plan
from experiments.schema import RunConfig, read_config
from mlfabric.emulation.hosts import enter
from mlfabric.emulation.played import PlayedTrace
from mlfabric.emulation.rates import RateBoard
from mlfabric.engines.mpi.keeper import Keeper
from mlfabric.engines.mpi.records import tell_failure


def main(run_dir: Path) -> None:
    """Play this rank's part; tell why if it cannot even start."""
    try:
        _play(run_dir)
    except Exception:
        rank = this_rank()
        tell_failure(run_dir, rank, f"rank {rank}: {traceback.format_exc()}")
        raise


def _play(run_dir: Path) -> None:
    config = read_config(run_dir / "config.json")
    emulation = os.environ[EMULATION_VARIABLE]
    if emulation == "netns":
        enter(config.hosts[this_rank()])
    workload = build_workload(config.workload, config.seed)
    rates, paced = _rates(config, run_dir, emulation), emulation == "userspace"
    keeper = Keeper() if config.fault_tolerant else None
    plan = rank_plan(config, run_dir, workload.conserved, rates, paced)
    # Only now: MPI opens its sockets where the process is when it is imported.
    from mlfabric.engines.mpi.main import run

    run(
        plan,
        lambda worker: workload.trainer(worker, config.cluster.workers),
        keeper=keeper,
    )


def _rates(
    config: RunConfig, run_dir: Path, emulation: str
) -> Callable[[float], Sequence[float]] | None:
    """What tells the rates of all links at a time; None where they are not ours."""
    if emulation == "netns":
        board = RateBoard(run_dir / "rates.bin")
        return lambda now: board.read()
    if emulation == "userspace":
        bandwidths = dict.fromkeys(config.hosts, config.cluster.bandwidth_bytes_per_s)
        return PlayedTrace(bandwidths, rate_events(config)).rates
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
