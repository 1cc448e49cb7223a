"""A server dies: its replica takes over, or the run is restarted from a checkpoint.

`make bench ARGS=recovery`. Real ranks, LDA; what is compared is the time from SIGKILL until the
model has more updates than it had then, of the run's clock and of the wall's. In results/bench/.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from experiments.bench.report import BenchFailed, claim, report
from experiments.mpi_library import RANK_VARIABLES
from experiments.paths import RESULTS, ROOT
from experiments.progress import read_progress
from mlfabric.checkpoints import Checkpoints

SEEDS = (0, 1, 2)
AT_S = 12.0
INTERVAL_S = 5.0
SERVER_RANK = 1
PATIENCE_S = 180.0
COMMON = (
    *("workload=plda_sotu", "policy=mlfabric_a", "network=ns1", "tracking=none"),
    f"engine.max_seconds={2 * AT_S}",
)
FOLDER = RESULTS / "bench" / "recovery"


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    replica = [_taken_over(seed) for seed in SEEDS]
    restart = [_restarted(seed) for seed in SEEDS]
    for told in (*replica, *restart):
        print(" · ".join(f"{key} {value}" for key, value in told.items()))
    ratio = _median(restart, "seconds") / _median(replica, "seconds")
    what = "restart from a checkpoint over takeover by a replica, seconds until there is progress"
    claims = [claim(what, ratio, "more than 1", ratio > 1)]
    return report("recovery", {"replica": replica, "restart": restart, "claims": claims})


def _taken_over(seed: int) -> dict[str, Any]:
    folder = FOLDER / f"replica-{seed}"
    fault = ("replication=bounded", "fault=server_kill", f"fault.at_s={AT_S}")
    _started(folder, seed, *fault).wait()
    told = json.loads((folder / "run.json").read_text())
    if told["recovery_s"] is None:
        raise BenchFailed(f"{folder}: {told['reason'] or 'no recovery'}")
    lost = told["lost_updates"]
    return {"by": "replica", "seed": seed, "seconds": told["recovery_s"], "updates_lost": lost}


def _restarted(seed: int) -> dict[str, Any]:
    folder = FOLDER / f"restart-{seed}"
    saved = ("resume=auto", f"engine.checkpoint_interval_s={INTERVAL_S}")
    run = _started(folder, seed, *saved)
    _wait_until(folder, "elapsed_s", AT_S, run)
    at_kill = read_progress(folder)["version"]
    os.kill(_rank(folder, SERVER_RANK), signal.SIGKILL)
    killed = time.monotonic()
    run.wait()
    checkpoint = Checkpoints(folder).latest()
    if checkpoint is None:
        raise BenchFailed(f"{folder}: no checkpoint in {AT_S:g} s")
    server = checkpoint.part("server")["roles"]["server 0"]
    run = _started(folder, seed, *saved)
    _wait_until(folder, "version", at_kill + 1, run)
    seconds = time.monotonic() - killed
    run.send_signal(signal.SIGTERM)
    run.wait()
    return {
        "by": "restart",
        "seed": seed,
        "seconds": round(seconds, 3),
        "updates_lost": at_kill - server[1],
        "run_clock_lost_s": round(AT_S - checkpoint.elapsed_s, 3),
    }


def _started(folder: Path, seed: int, *overrides: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    own = (f"seed={seed}", f"hydra.run.dir={folder}")
    command = [sys.executable, "-m", "experiments.run", *COMMON, *own, *overrides]
    with (FOLDER / f"{folder.name}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def _wait_until(folder: Path, key: str, least: float, run: subprocess.Popen[bytes]) -> None:
    """Until the run has come so far."""
    deadline = time.monotonic() + PATIENCE_S
    while read_progress(folder).get(key, -1.0) < least:
        if run.poll() is not None or time.monotonic() > deadline:
            raise BenchFailed(f"{folder}: {key} did not reach {least:g}; see {folder}.log")
        time.sleep(0.05)


def _rank(folder: Path, number: int) -> int:
    """Process id of a rank of the run in this folder."""
    wanted = {f"{name}={number}".encode() for name in RANK_VARIABLES}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().split(b"\0")
            words = set((entry / "environ").read_bytes().split(b"\0"))
        except OSError:
            continue
        if b"experiments.rank" in line and str(folder).encode() in line and wanted & words:
            return int(entry.name)
    raise BenchFailed(f"{folder}: no process is rank {number}")


def _median(told: list[dict[str, Any]], key: str) -> float:
    return float(statistics.median(each[key] for each in told))
