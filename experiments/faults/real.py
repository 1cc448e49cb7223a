"""The same schedules on real ranks over shaped links."""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from experiments.faults.counting import COMPUTE_S, RATE, Rows, Seen, rate_events
from experiments.faults.schedules import Schedule, draw
from experiments.mpi_library import library
from experiments.mpiexec import run_in_bubble
from experiments.rows import read_rows
from experiments.shards import ShardedSnapshots, distances

REAL_SIZE = int(RATE * COMPUTE_S / 4)
"""Entries of a model that takes as long to send as to compute."""

SECONDS = 14.0
LATEST_S = 6.0
START_S = 60.0
"""A fault after this would leave no time to see that the run goes on."""


class RanksFailed(Exception):
    """The ranks did not end in good order: what they said last."""


def real_schedule(seed: int) -> Schedule:
    """That of the seed, less what comes too late for a short run."""
    schedule = draw(seed)
    in_time = tuple(fault for fault in schedule.faults if fault.at_s <= LATEST_S)
    return dataclasses.replace(schedule, faults=in_time)


def carry_out(schedule: Schedule) -> tuple[Rows, Seen]:
    """Rows of the run, and every model that was shown; raises RanksFailed."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder)
        np.save(run_dir / "model0.npy", np.zeros(REAL_SIZE, np.int32))
        program = ["-m", "experiments.faults.rank", folder, str(schedule.seed)]
        rates = dict.fromkeys(schedule.hosts, RATE)
        try:
            run_in_bubble(
                run_dir,
                rates,
                rate_events(schedule),
                library("openmpi"),
                program,
                tolerant=True,
                timeout_s=SECONDS + START_S,
            )
        except subprocess.CalledProcessError as error:
            raise RanksFailed(_story(run_dir, error)) from None
        except subprocess.TimeoutExpired as error:
            raise RanksFailed(f"the ranks did not end within {error.timeout:g} s") from None
        return _rows(run_dir), [*ShardedSnapshots(run_dir / "snapshots", 1).models()]


def _rows(run_dir: Path) -> Rows:
    paths = sorted((run_dir / "records").glob("rank-*.jsonl"))
    rows = [dict(row) for path in paths for row in read_rows(path, whole=False)]
    rows += [{"row": "distance", **row} for row in distances(run_dir / "snapshots")]
    return sorted(rows, key=lambda row: float(row.get("resolved_s", row.get("elapsed_s", 0.0))))


def _story(run_dir: Path, error: subprocess.CalledProcessError) -> str:
    told = sorted(run_dir.glob("failure-*.txt"))
    last = [path.read_text().strip().splitlines()[-1] for path in told if path.stat().st_size]
    return last[0] if last else f"the ranks ended with status {error.returncode}"
