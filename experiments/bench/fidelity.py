"""How well the virtual clock foretells real ranks; results/bench/fidelity.json.

Each case runs once a seed on real ranks over shaped links, and then on the virtual clock under the
straggler trace that the first run recorded; both train. Means over seeds are compared: single runs
of either engine differ by several per cent. The constants of the virtual clock come from
conf/cluster and are the same in all cases.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

from experiments.bench.report import claim, report
from experiments.bench.runs import measured
from experiments.paths import RESULTS
from mlfabric import policies

POLICIES = ("async_ps", "ring_allreduce", "mlfabric_a")
NETWORKS = ("none", "ns1", "ns2")
SEEDS = (0, 1, 2)
SECONDS = 24.0
TOLERATED = {"updates_per_s": 0.10, "mean_delay": 0.15}
FOLDER = RESULTS / "bench" / "fidelity"


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    cases = [_case(policy, network) for policy in POLICIES for network in NETWORKS]
    claims = [one for case in cases for one in _claims(case)]
    return report("fidelity", {"seconds": SECONDS, "cases": cases, "claims": claims})


def _case(policy: str, network: str) -> dict[str, Any]:
    pairs = [_pair(policy, network, seed) for seed in SEEDS]
    engines = {
        engine: {key: [run[key] for run in runs] for key in runs[0]}
        for engine, runs in zip(("mpi", "virtual"), zip(*pairs, strict=True), strict=True)
    }
    return {"policy": policy, "network": network, "seeds": SEEDS, **engines}


def _pair(policy: str, network: str, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The real run, and what the virtual clock foretells of it."""
    name = f"{policy}-{network}-{seed}"
    real, virtual = (FOLDER / engine / name for engine in ("mpi", "virtual"))
    common = ["workload=resnet_mnist5k", "cluster=laptop", f"policy={policy}", f"seed={seed}"]
    common += [f"engine.max_seconds={SECONDS}", "engine.snapshot_interval_s=1000"]
    found = measured(real, [*common, "engine=mpi", f"network={network}"])
    trace = ["network=trace", f"network.trace_file={real / 'network_trace.csv'}"]
    return found, measured(virtual, [*common, "engine=virtual", *trace])


def _claims(case: dict[str, Any]) -> list[dict[str, Any]]:
    """A synchronous sum has no delays to compare."""
    summed = policies.is_collective(case["policy"])
    keys = [key for key in TOLERATED if not (key == "mean_delay" and summed)]
    return [_claim(f"{case['policy']} × {case['network']}", key, case) for key in keys]


def _claim(names: str, key: str, case: dict[str, Any]) -> dict[str, Any]:
    real, virtual = (statistics.mean(case[engine][key]) for engine in ("mpi", "virtual"))
    ratio, tolerated = virtual / real if real else math.inf, TOLERATED[key]
    valid = {engine: all(case[engine]["valid"]) for engine in ("mpi", "virtual")}
    what = f"{names}, {key}, virtual over real"
    if not valid["mpi"]:
        what += " (a real run is invalid)"
    holds = all(valid.values()) and abs(ratio - 1) <= tolerated
    return claim(what, ratio, f"within {tolerated:.0%}", holds)
