"""Find the levels that time-to-target is measured against: `python -m experiments.targets`.

A target is what async_ps reaches, in the median of seeds 100 to 104, at 80 % of a profile's
training time when nothing straggles. It is fixed in conf/workload before runs are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from experiments.paths import RESULTS
from experiments.plan_runs import Share, make_plan, read_profile
from experiments.run import main as run

SEEDS = range(100, 105)
BUDGET_SHARE = 0.8


def main(arguments: list[str]) -> int:
    """Run what is missing and print a target for each workload and cluster of the profile."""
    parser = argparse.ArgumentParser(prog="python -m experiments.targets", description=__doc__)
    parser.add_argument("--profile", default="laptop")
    profile = parser.parse_args(arguments).profile
    for workload, share in _cells(profile):
        levels = [_level(workload, share, seed) for seed in SEEDS]
        print(f"{workload} {share.cluster}: {statistics.median(levels):.4g} of {sorted(levels)}")
    return 0


def _cells(profile: str) -> Iterable[tuple[str, Share]]:
    runs = make_plan(profile, ["fig7"]).runs()
    shares = read_profile(profile).runs
    cells = sorted({(run.config.workload.name, run.config.cluster.name) for run in runs})
    for workload, cluster in cells:
        cell = {"workload": workload, "cluster": cluster}
        yield workload, next(share for share in shares if share.covers("fig7", cell))


def _level(workload: str, share: Share, seed: int) -> float:
    """The metric of the run's last snapshot, taken when the budget's share has passed."""
    seconds = BUDGET_SHARE * share.max_seconds
    folder = RESULTS / "targets" / f"{workload}-{share.cluster}-{seconds:g}-{seed}"
    if not _is_finished(folder):
        names = [f"workload={workload}", f"cluster={share.cluster}", "policy=async_ps"]
        where = [f"engine.max_seconds={seconds}", f"hydra.run.dir={folder}"]
        status = run([*names, "network=none", "compute=none", f"seed={seed}", *where])
        if status != 0:
            sys.exit(status)
    return _last(folder)


def _is_finished(folder: Path) -> bool:
    path = folder / "run.json"
    return path.exists() and json.loads(path.read_text())["status"] == "finished"


def _last(folder: Path) -> float:
    name = json.loads((folder / "run.json").read_text())["metric_name"]
    return float(pd.read_parquet(folder / "metrics.parquet")[name].iloc[-1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
