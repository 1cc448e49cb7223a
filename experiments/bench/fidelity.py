"""How well the virtual clock foretells real ranks; results/bench/fidelity.json.

Each case runs once on real ranks over shaped links, then on the virtual clock under the straggler
trace that the first run recorded; both train. The constants of the virtual clock come from
conf/cluster and are the same in all cases.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

from experiments.bench.report import claim, report
from experiments.paths import RESULTS
from experiments.run import main as run
from mlfabric.policies import COLLECTIVE

POLICIES = ("async_ps", "ring_allreduce", "mlfabric_a")
NETWORKS = ("none", "ns1", "ns2")
SECONDS = 24.0
TOLERATED = {"updates_per_s": 0.10, "mean_delay": 0.15}
FOLDER = RESULTS / "bench" / "fidelity"


def main() -> int:
    """Measure, write, print; exit status 1 where a claim does not hold."""
    cases = [_case(policy, network) for policy in POLICIES for network in NETWORKS]
    claims = [one for case in cases for one in _claims(case)]
    return report("fidelity", {"seconds": SECONDS, "cases": cases, "claims": claims})


def _case(policy: str, network: str) -> dict[str, Any]:
    real, virtual = (FOLDER / engine / f"{policy}-{network}" for engine in ("mpi", "virtual"))
    common = ["workload=resnet_mnist5k", "cluster=laptop", f"policy={policy}", "seed=0"]
    common += [f"engine.max_seconds={SECONDS}", "engine.snapshot_interval_s=1000"]
    measured = _measure(real, [*common, "engine=mpi", f"network={network}"])
    trace = ["network=trace", f"network.trace_file={real / 'network_trace.csv'}"]
    foretold = _measure(virtual, [*common, "engine=virtual", *trace])
    return {"policy": policy, "network": network, "mpi": measured, "virtual": foretold}


def _measure(folder: Path, overrides: list[str]) -> dict[str, float]:
    shutil.rmtree(folder, ignore_errors=True)
    where = [f"hydra.run.dir={folder}", f"tracking.uri=sqlite:///{FOLDER}/mlflow.db"]
    status = run([*overrides, *where])
    found = json.loads((folder / "run.json").read_text())
    if found["updates_applied"] is None:
        raise SystemExit(status)
    return {
        "valid": status == 0,
        "updates_per_s": found["updates_applied"] / found["elapsed_s"],
        "mean_delay": found["delay"]["mean"],
    }


def _claims(case: dict[str, Any]) -> list[dict[str, Any]]:
    """A synchronous sum has no delays to compare."""
    keys = [key for key in TOLERATED if not (key == "mean_delay" and case["policy"] in COLLECTIVE)]
    return [_claim(f"{case['policy']} × {case['network']}", key, case) for key in keys]


def _claim(names: str, key: str, case: dict[str, Any]) -> dict[str, Any]:
    real, virtual, tolerated = case["mpi"][key], case["virtual"][key], TOLERATED[key]
    ratio = virtual / real if real else math.inf
    holds = case["mpi"]["valid"] and case["virtual"]["valid"] and abs(ratio - 1) <= tolerated
    what = f"{names}, {key}, virtual over real"
    if not case["mpi"]["valid"]:
        what += " (the real run is invalid)"
    return claim(what, ratio, f"within {tolerated:.0%}", holds)


if __name__ == "__main__":
    raise SystemExit(main())
