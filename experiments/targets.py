"""Find the levels that time-to-target is measured against: `python -m experiments.targets`.

A target is what async_ps reaches, in the median of seeds 100 to 104, at 80 % of a profile's
training time when nothing straggles. It is fixed in conf/workload before runs are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.paths import RESULTS
from experiments.plan_runs import Share, cells, read_profile
from experiments.run import main as run

SEEDS = range(100, 105)
BUDGET_SHARE = 0.8


@dataclass(frozen=True)
class Case:
    """A workload, with the settings of its own, on a cluster and the engine that carries it out."""

    workload: str
    cluster: str
    overrides: tuple[str, ...]
    max_seconds: float


def main(arguments: list[str]) -> int:
    """Run what is missing and print a target for each workload and cluster of the figures."""
    parser = argparse.ArgumentParser(prog="python -m experiments.targets", description=__doc__)
    parser.add_argument("--profile", default="laptop")
    parser.add_argument("--figures", default="fig7,table1", help="default: %(default)s")
    chosen = parser.parse_args(arguments)
    for case in _cases(chosen.profile, chosen.figures.split(",")):
        levels = [_level(case, seed) for seed in SEEDS]
        print(
            f"{case.workload} {case.cluster}: {statistics.median(levels):.4g} of {sorted(levels)}"
        )
    return 0


def _cases(profile: str, figures: list[str]) -> list[Case]:
    settings = read_profile(profile)
    found = (
        _case(overrides, share)
        for figure in figures
        for overrides, share in cells(figure, settings)
    )
    return list(dict.fromkeys(found))


def _case(overrides: Sequence[str], share: Share) -> Case:
    """What a cell says of its workload, cluster and engine; the rest varies within a comparison."""
    chosen = dict(override.split("=", 1) for override in overrides)
    kept = [key for key in chosen if key.partition(".")[0] in ("workload", "cluster", "engine")]
    fixed = tuple(f"{key}={chosen[key]}" for key in kept)
    return Case(chosen["workload"], chosen["cluster"], fixed, share.max_seconds)


def _level(case: Case, seed: int) -> float:
    """The metric of the run's last snapshot, taken when the budget's share has passed."""
    seconds = BUDGET_SHARE * case.max_seconds
    folder = RESULTS / "targets" / f"{case.workload}-{case.cluster}-{seconds:g}-{seed}"
    if not _is_finished(folder):
        names = [*case.overrides, "policy=async_ps", "network=none", "compute=none"]
        where = [f"engine.max_seconds={seconds}", f"hydra.run.dir={folder}"]
        status = run([*names, f"seed={seed}", *where])
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
