"""One server, a few, or one beside every worker; results/bench/servers.json.

`make bench ARGS=servers`. On cluster=paper, the virtual clock: updates/s and delays of every policy
with a server (bytes and seconds alone), then seconds to the target, trained, of what is fastest.
Medians over seeds; a run that misses its target counts as infinite.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.bench.report import claim, report
from experiments.paths import RESULTS
from experiments.study import Result, carried_out
from mlfabric import policies

SERVED = [name for name in policies.names() if not policies.is_collective(name)]
PIPELINED = [name for name in SERVED if policies.place(name) == "scheduler"]
VARIANTS = {name: [f"policy={name}"] for name in SERVED} | {
    f"{name} pipelined": [f"policy={name}", "policy.aggregation=pipelined"] for name in PIPELINED
}
SERVERS = {
    "1": ["cluster.servers=1"],
    "5": ["cluster.servers=5"],
    "n": ["cluster.servers=30", "cluster.colocated=true"],
}
CELLS = {"none": ["network=none", "compute=none"], "ns1 x cs2": ["network=ns1", "compute=cs2"]}
SEEDS = (0, 1, 2)
UPDATES = 300
MAX_SECONDS = 200.0
FOLDER = RESULTS / "bench" / "servers"

TRAINED = ("async_ps", "mlfabric_a pipelined")
RING = {"ring_allreduce": ["policy=ring_allreduce"]}

Point = tuple[str, str, str]
"""Variant, servers, cell."""


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    paced = _points(VARIANTS, SERVERS, ["workload.timing_only=true", _ends_after(UPDATES)])
    rates = {point: _rates(found) for point, found in paced.items()}
    ends = {"1": SERVERS["1"], "n": SERVERS["n"]}
    until = ["engine.stop_at_target=true", f"engine.max_seconds={MAX_SECONDS}"]
    trained = _points({name: VARIANTS[name] for name in TRAINED}, ends, until)
    trained |= _points(RING, {"1": []}, until)
    seconds = {point: _seconds(found) for point, found in trained.items()}
    claims = [_claim(rates, name, cell) for name in SERVED for cell in CELLS]
    results = {"rates": _told(rates), "seconds_to_target": _told(seconds), "claims": claims}
    for point, found in seconds.items():
        print(f"{' · '.join(point)}: target after {found['median']:.1f} s")
    return report("servers", results)


def _ends_after(updates: int) -> str:
    return f"engine.max_updates={updates}"


def _points(
    variants: Mapping[str, list[str]], servers: Mapping[str, list[str]], more: Iterable[str]
) -> dict[Point, list[Result]]:
    """The results of every seed."""
    common = ["workload=resnet_digits", "engine=virtual", "cluster=paper", *more]
    jobs = {
        (name, count, cell, seed): [*common, *own, *apart, *stragglers, f"seed={seed}"]
        for name, own in variants.items()
        for count, apart in servers.items()
        for cell, stragglers in CELLS.items()
        for seed in SEEDS
    }
    lines = {" ".join(map(str, job)): overrides for job, overrides in jobs.items()}
    found = carried_out(lines, FOLDER)
    points: dict[Point, list[Result]] = {}
    for job in jobs:
        points.setdefault(job[:3], []).append(found[" ".join(map(str, job))])
    return points


def _rates(found: Iterable[Result]) -> dict[str, float]:
    told = [result.summary for result in found]
    return {
        "updates_per_s": statistics.median(s["updates_applied"] / s["elapsed_s"] for s in told),
        "mean_delay": statistics.median(s["delay"]["mean"] for s in told),
        "updates_dropped": statistics.median(s["updates_dropped"] for s in told),
    }


def _seconds(found: Iterable[Result]) -> dict[str, Any]:
    told = [result.summary["time_to_target_s"] for result in found]
    seconds = [math.inf if each is None else each for each in told]
    return {"median": statistics.median(seconds), "by_seed": told}


def _told(points: Mapping[Point, dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows fit for JSON."""
    return [
        {"variant": name, "servers": servers, "cell": cell}
        | {key: None if value == math.inf else value for key, value in found.items()}
        for (name, servers, cell), found in points.items()
    ]


def _claim(rates: Mapping[Point, Mapping[str, float]], name: str, cell: str) -> dict[str, Any]:
    one, each = (rates[name, servers, cell]["updates_per_s"] for servers in ("1", "n"))
    what = f"{name} × {cell}, updates/s with a server beside every worker over one server"
    return claim(what, each / one, "more than 1", each > one)
