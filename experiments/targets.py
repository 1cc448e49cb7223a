"""Find the levels that time-to-target is measured against: `python -m experiments.targets`.

A target is what async_ps reaches, in the median of seeds 100 to 104, at 80 % of a profile's
training time when nothing straggles. It is fixed in conf/workload before runs are compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.errors import RunFailed
from experiments.overrides import validate
from experiments.paths import RESULTS
from experiments.plan_runs import cells
from experiments.profiles import Share, read_profile
from experiments.study import carried_out, carried_out_alone
from mlfabric.errors import SettingError

SEEDS = range(100, 105)
BUDGET_SHARE = 0.8


@dataclass(frozen=True)
class Case:
    """A workload, with the settings of its own, on a cluster and the engine that carries it out."""

    workload: str
    cluster: str
    overrides: tuple[str, ...]
    budget_s: float


def main(arguments: list[str]) -> int:
    """Run what is missing and print a target for each workload and cluster of the figures."""
    parser = argparse.ArgumentParser(prog="python -m experiments.targets", description=__doc__)
    parser.add_argument("--profile", default="laptop")
    parser.add_argument("--figures", default="fig7,table1", help="default: %(default)s")
    chosen = parser.parse_args(arguments)
    try:
        for case in _cases(chosen.profile, chosen.figures.split(",")):
            levels = _levels(case)
            target = statistics.median(levels)
            print(f"{case.workload} {case.cluster}: {target:.4g} of {sorted(levels)}", flush=True)
    except (RunFailed, SettingError) as error:
        print(error, file=sys.stderr)
        return 1
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
    return Case(chosen["workload"], chosen["cluster"], fixed, share.target_budget_s)


def _levels(case: Case) -> list[float]:
    """The metric of each seed's last snapshot, taken when the budget's share has passed."""
    jobs = {f"{case.workload} {case.cluster} {seed}": _overrides(case, seed) for seed in SEEDS}
    (first,) = validate(next(iter(jobs.values())), multirun=False)
    carry_out = carried_out if first.virtual else carried_out_alone
    return [result.last for result in carry_out(jobs, RESULTS / "targets").values()]


def _overrides(case: Case, seed: int) -> list[str]:
    fixed = ["policy=async_ps", "network=none", "compute=none"]
    limit = f"engine.max_seconds={BUDGET_SHARE * case.budget_s}"
    return [*case.overrides, *fixed, limit, f"seed={seed}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
