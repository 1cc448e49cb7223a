"""What the virtual engine costs as clusters grow; results/bench/scale.json.

`make bench ARGS=scale`. Runs of bytes and seconds alone on cluster=paper, one process
on one core: every policy with 1,000 workers of 100 updates each, and from 10 to 10,000 workers with
fewer.
"""

from __future__ import annotations

import math
import time
from typing import Any

from experiments.bench.report import claim, report
from experiments.collect import totals
from experiments.errors import RunFailed
from experiments.execute_virtual import time_only
from experiments.overrides import validate

POLICIES = ("ring_allreduce", "async_ps", "mlfabric_a")
SIZES = (10, 100, 1_000, 10_000)
UPDATES = 20_000
"""Applied updates of a run of the growth series; two of each worker, at least."""

WORKERS, UPDATES_EACH = 1_000, 100
CLAIMED_EXPONENT = 0.75
"""Of the cost of an update against the number of workers."""


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    _cost("async_ps", 10, 10)  # what is loaded once is no cost of the first run
    growth = {
        policy: {n: _cost(policy, n, max(UPDATES, 2 * n)) for n in SIZES} for policy in POLICIES
    }
    whole = {policy: _cost(policy, WORKERS, WORKERS * UPDATES_EACH) for policy in POLICIES}
    for policy, cost in whole.items():
        print(f"{policy}: {WORKERS:,} workers x {UPDATES_EACH} updates in {cost['wall_s']:.1f} s")
    claims = [_claim(policy, costs) for policy, costs in growth.items()]
    return report("scale", {"growth": growth, "whole": whole, "claims": claims})


def _cost(policy: str, workers: int, updates: int) -> dict[str, Any]:
    """Seconds of a run, and what it came to; raises RunFailed where updates are missing."""
    overrides = ["engine=virtual", "cluster=paper", "workload=resnet_digits", f"policy={policy}"]
    sizes = [f"cluster.workers={workers}", f"engine.max_updates={updates}"]
    timing = ["workload.timing_only=true", "engine.max_seconds=1e6", "compute=cs2"]
    (config,) = validate([*overrides, *sizes, *timing], multirun=False)
    begun, started = time.monotonic(), time.process_time()
    rows = time_only(config)
    cpu_s, wall_s = time.process_time() - started, time.monotonic() - begun
    end = totals(rows)
    applied, elapsed_s = end["applied"], end["elapsed_s"]
    if applied < updates:
        raise RunFailed(f"{policy} with {workers} workers applied {applied} of {updates} updates")
    return {
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "cpu_s_per_update": cpu_s / applied,
        "updates": applied,
        "virtual_s": elapsed_s,
    }


def _claim(policy: str, costs: dict[int, dict[str, Any]]) -> dict[str, Any]:
    first, last = costs[SIZES[0]], costs[SIZES[-1]]
    ratio = last["cpu_s_per_update"] / first["cpu_s_per_update"]
    exponent = math.log(ratio) / math.log(SIZES[-1] / SIZES[0])
    what = f"{policy}, growth of an update's cost from {SIZES[0]} to {SIZES[-1]:,} workers"
    allowed = f"exponent at most {CLAIMED_EXPONENT}"
    return claim(what, exponent, allowed, exponent <= CLAIMED_EXPONENT)
