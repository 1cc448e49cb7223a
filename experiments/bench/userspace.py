"""Links shaped in user space beside those of namespaces; results/bench/userspace.json.

The same runs, seeds and straggler traces by both. Means over seeds are compared.
"""

from __future__ import annotations

import statistics
from typing import Any

from experiments.bench.report import claim, report
from experiments.bench.runs import measured
from experiments.paths import RESULTS

POLICIES = ("async_ps", "mlfabric_a", "mlfabric_allreduce")
SEEDS = (0, 1)
SECONDS = 15.0
TOLERATED = 0.15
FOLDER = RESULTS / "bench" / "userspace"


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    cases = [{"policy": policy, **_case(policy)} for policy in POLICIES]
    return report(
        "userspace", {"seconds": SECONDS, "cases": cases, "claims": list(map(_claim, cases))}
    )


def _case(policy: str) -> dict[str, Any]:
    return {
        shaping: [_run(policy, shaping, seed) for seed in SEEDS]
        for shaping in ("netns", "userspace")
    }


def _run(policy: str, shaping: str, seed: int) -> dict[str, Any]:
    settings = ["workload=resnet_mnist5k", "network=ns1", f"policy={policy}", f"seed={seed}"]
    settings += [f"engine.max_seconds={SECONDS}", "engine.snapshot_interval_s=1000"]
    folder = FOLDER / f"{policy}-{shaping}-{seed}"
    return measured(folder, [*settings, f"engine.emulation={shaping}"])


def _claim(case: dict[str, Any]) -> dict[str, Any]:
    means = {
        shaping: statistics.mean(run["updates_per_s"] for run in case[shaping])
        for shaping in ("netns", "userspace")
    }
    ratio = means["userspace"] / means["netns"]
    valid = all(run["valid"] for shaping in means for run in case[shaping])
    what = f"{case['policy']} × ns1, updates/s in user space over namespaces"
    holds = valid and abs(ratio - 1) <= TOLERATED
    return claim(what, ratio, f"within {TOLERATED:.0%}", holds)
