"""What checkpoints cost a run: updates/s with them over without; results/bench/checkpoints.json.

Real ranks, the default interval; the median over pairs of equal seeds is held against a bound.
"""

from __future__ import annotations

import statistics
from typing import Any

from experiments.bench.report import claim, report
from experiments.bench.runs import measured
from experiments.paths import RESULTS

WORKLOADS = ("plda_sotu", "resnet_mnist5k")
SEEDS = (0, 1, 2)
SECONDS = 25.0
TOLERATED = 0.05
FOLDER = RESULTS / "bench" / "checkpoints"


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    cases = [
        {"workload": workload, "pairs": [_pair(workload, seed) for seed in SEEDS]}
        for workload in WORKLOADS
    ]
    return report(
        "checkpoints", {"seconds": SECONDS, "cases": cases, "claims": list(map(_claim, cases))}
    )


def _pair(workload: str, seed: int) -> dict[str, Any]:
    return {resume: _run(workload, resume, seed) for resume in ("never", "auto")}


def _run(workload: str, resume: str, seed: int) -> dict[str, Any]:
    settings = [f"workload={workload}", "policy=mlfabric_a", f"seed={seed}", f"resume={resume}"]
    settings += [f"engine.max_seconds={SECONDS}", "engine.stop_at_target=false"]
    return measured(FOLDER / f"{workload}-{resume}-{seed}", settings)


def _claim(case: dict[str, Any]) -> dict[str, Any]:
    pairs = case["pairs"]
    ratio = statistics.median(
        pair["auto"]["updates_per_s"] / pair["never"]["updates_per_s"] for pair in pairs
    )
    valid = all(run["valid"] for pair in pairs for run in pair.values())
    what = f"{case['workload']}, updates/s with checkpoints over without"
    least = 1 - TOLERATED
    return claim(what, ratio, f"at least {least:.2f}", valid and ratio >= least)
