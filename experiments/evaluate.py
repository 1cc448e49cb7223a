"""`python -m experiments.evaluate RUN_DIR`: the workload's part of a run that is off its clock.

Prepares the workload and writes model0.npy; then scores snapshots as they appear, on processor
time that nobody else wants. It ends when snapshots/complete exists and every snapshot that the
servers have taken is in metrics.jsonl. So the launcher never imports a framework.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from experiments.build import build_workload
from experiments.collect import DISTANCES_FILE, SCORES_FILE
from experiments.model_report import write_report
from experiments.rows import read_rows
from experiments.schema import read_config
from experiments.shards import ShardedSnapshots, distances
from mlfabric.engines.mpi.records import save_array
from workloads.base import Vector, WorkloadError

NO_DATA = 3
"""Exit status: the last line printed says what is wrong with the workload or its data."""

_POLL_S = 0.2
_AUTOGROUP = Path("/proc/self/autogroup")


def main(arguments: list[str]) -> int:
    """Prepare and evaluate the run whose folder is the one argument; NO_DATA where those fail."""
    try:
        _evaluate(Path(arguments[0]))
    except WorkloadError as error:
        print(error)
        return NO_DATA
    except MemoryError as error:
        print(f"memory ran out: {error}")
        return NO_DATA
    return 0


def _evaluate(run_dir: Path) -> None:
    config = read_config(run_dir / "config.json")
    workload = build_workload(config.workload, config.seed)
    workload.prepare()
    _publish(workload.initial_model(), run_dir / "model0.npy")
    _step_back()
    evaluator = workload.evaluator()
    last: Vector | None = None
    scored_s = max((row["elapsed_s"] for row in read_rows(run_dir / SCORES_FILE)), default=-1.0)
    with (run_dir / SCORES_FILE).open("a", encoding="utf-8") as metrics:
        for model, version, elapsed_s in follow(run_dir / "snapshots", config.cluster.servers):
            last = model
            if elapsed_s <= scored_s:  # before the run went on
                continue
            scores = evaluator.evaluate(model)
            row = {"version": version, "elapsed_s": elapsed_s, **scores}
            metrics.write(json.dumps(row) + "\n")
            metrics.flush()
    _write_distances(run_dir)
    if last is not None:
        write_report(evaluator, last, run_dir)


def follow(folder: Path, servers: int) -> Iterator[tuple[Vector, int, float]]:
    """Every (model, version, elapsed_s), as soon as it is whole, until the folder is complete."""
    snapshots = ShardedSnapshots(folder, servers)
    while True:
        complete = (folder / "complete").exists()  # looked at first: nothing comes after it
        yield from snapshots.models()
        if complete:
            return
        time.sleep(_POLL_S)


def _write_distances(run_dir: Path) -> None:
    """How far the replica, where there is one, was from the server whenever both were shown."""
    with (run_dir / DISTANCES_FILE).open("w", encoding="utf-8") as file:
        for row in distances(run_dir / "snapshots"):
            file.write(json.dumps({"row": "distance", **row}) + "\n")


def _publish(model: Vector, path: Path) -> None:
    """Write a model that is complete from the first moment it can be seen."""
    unfinished = path.with_suffix(".tmp.npy")
    save_array(unfinished, model)
    unfinished.rename(path)


def _step_back() -> None:
    """Run only on processor time that no rank wants.

    Where the kernel groups processes by session, a session's priority counts before ours.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        os.nice(19)
    with suppress(OSError):
        _AUTOGROUP.write_text("19")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
