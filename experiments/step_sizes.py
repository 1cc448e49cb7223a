"""Search the step size of every policy alike: `python -m experiments.step_sizes`.

Each variant is run with every step scale on cluster=paper without stragglers, seeds 100 to 102.
For async_ps that scale is best which has reached the lowest level, in the median, after 80 % of
the time that table1 gives a run; for the others, which are run until they get there, the one that
reaches that level first. Policies that apply the sum of all workers' updates, each of the newest
model, go through the same models whoever sums: one of them, the ring, is searched for all. All
points are kept in results/step_sizes-<workload>.json.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.errors import RunFailed
from experiments.files import write_json
from experiments.paths import RESULTS
from experiments.profiles import read_profile
from experiments.study import Result, carried_out
from mlfabric import policies

SCALES = (0.125, 0.25, 0.5, 1.0, 2.0)
SEEDS = (100, 101, 102)
BUDGET_SHARE = 0.8
MAX_UPDATES = 1500
"""Ends the runs of fast policies: what has not reached the level by then is out of the race."""

REFERENCE = "async_ps"
AS_THE_RING = (
    "tree_allreduce",
    "mpi_allreduce",
    "mlfabric_allreduce",
    "sync_ps",
    "mlfabric_s",
)
SEARCHED = [name for name in policies.names() if name not in AS_THE_RING]
VARIANTS = {name: [f"policy={name}"] for name in SEARCHED} | {
    f"{name} pipelined": [f"policy={name}", "policy.aggregation=pipelined"]
    for name in SEARCHED
    if policies.place(name) == "scheduler"
}

Point = tuple[str, float, int]


def main(arguments: Sequence[str]) -> int:
    """Run what is missing, print and write every point."""
    parser = argparse.ArgumentParser(prog="python -m experiments.step_sizes", description=__doc__)
    parser.add_argument("--workload", default="resnet_digits")
    workload = parser.parse_args(arguments).workload
    try:
        results = _results(workload)
    except RunFailed as error:
        print(error, file=sys.stderr)
        return 1
    report = _report(results)
    write_json(report, RESULTS / f"step_sizes-{workload}.json")
    print(json.dumps(report, indent=1))
    return 0


def budget_s(workload: str) -> float:
    """Seconds of the virtual clock at whose 80 % table1's target is found."""
    cell = {"cluster": "paper", "workload": workload}
    shares = read_profile("laptop").runs
    return next(share for share in shares if share.covers("table1", cell)).target_budget_s


def _results(workload: str) -> dict[Point, Result]:
    seconds = BUDGET_SHARE * budget_s(workload)
    common = [f"workload={workload}", "engine=virtual", "cluster=paper"]
    common += ["network=none", "compute=none"]
    common += [f"engine.max_seconds={seconds}", f"engine.max_updates={MAX_UPDATES}"]
    reference = _carried_out({REFERENCE: VARIANTS[REFERENCE]}, common)
    level, _ = _level(reference)
    common += ["engine.stop_at_target=true", f"workload.targets.paper={level!r}"]
    others = {name: own for name, own in VARIANTS.items() if name != REFERENCE}
    return reference | _carried_out(others, common)


def _carried_out(variants: Mapping[str, list[str]], common: Sequence[str]) -> dict[Point, Result]:
    """The results of every step scale and seed."""
    jobs = {
        f"{variant} {scale:g} {seed}": (
            (variant, scale, seed),
            [*common, *overrides, f"policy.step_scale.paper={scale}", f"seed={seed}"],
        )
        for variant, overrides in variants.items()
        for scale in SCALES
        for seed in SEEDS
    }
    lines = {job: overrides for job, (_, overrides) in jobs.items()}
    found = carried_out(lines, RESULTS / "step_sizes")
    return {jobs[job][0]: result for job, result in found.items()}


def _level(results: Mapping[Point, Result]) -> tuple[float, dict[float, float | None]]:
    """The best that the reference comes to, and what it comes to with every scale."""
    finals = {s: _median(results, REFERENCE, s, lambda r: r.last) for s in SCALES}
    known_finals = [final for final in finals.values() if final is not None]
    return (min if _lower_is_better(results) else max)(known_finals), finals


def _lower_is_better(results: Mapping[Point, Result]) -> bool:
    metric: str = next(iter(results.values())).summary["metric_name"]
    return metric.endswith("loss")


def _report(results: Mapping[Point, Result]) -> dict[str, Any]:
    goal = next(iter(results.values())).summary["metric_name"]
    lower = _lower_is_better(results)
    level, finals = _level(results)

    def reached(result: Result) -> dict[str, float]:
        rows = result.metrics[result.metrics["version"] > 0]
        good = rows[rows[goal] <= level if lower else rows[goal] >= level]
        places = good[["elapsed_s", "version"]]
        return dict(places.iloc[0]) if len(good) else {"elapsed_s": math.inf, "version": math.inf}

    def points(key: str) -> dict[str, dict[str, float | None]]:
        return {
            variant: {
                f"{s:g}": _median(results, variant, s, lambda r: reached(r)[key]) for s in SCALES
            }
            for variant in VARIANTS
        }

    return {
        "metric": goal,
        "level": level,
        f"level of {REFERENCE}": {f"{scale:g}": value for scale, value in finals.items()},
        "seconds": points("elapsed_s"),
        "updates": points("version"),
        "by_seed": {
            f"{variant} {scale:g} {seed}": [known(value) for value in reached(result).values()]
            for (variant, scale, seed), result in results.items()
        },
    }


def _median(
    results: Mapping[Point, Result], variant: str, scale: float, value: Callable[[Result], float]
) -> float | None:
    """Over the seeds; None where most never got there."""
    return known(statistics.median(value(results[variant, scale, seed]) for seed in SEEDS))


def known(value: float) -> float | None:
    """A number fit for JSON: None where it is not finite."""
    return float(value) if math.isfinite(value) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
