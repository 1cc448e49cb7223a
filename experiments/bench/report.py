"""What every benchmark leaves: results/bench/<name>.json, and its claims on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.files import write_json
from experiments.paths import RESULTS
from mlfabric.errors import MlfabricError


class BenchFailed(MlfabricError):
    """A benchmark that measured nothing that can be told."""


def claim(what: str, ratio: float, allowed: str, holds: bool) -> dict[str, Any]:
    """A measured ratio, in words what is allowed of it, and whether it keeps to that."""
    return {"what": what, "ratio": ratio, "allowed": allowed, "holds": holds}


def report(name: str, results: Mapping[str, Any]) -> int:
    """Write the results with their `claims`, print these; exit status 1 where one does not hold."""
    path = RESULTS / "bench" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(results, path)
    for one in results["claims"]:
        verdict = "holds" if one["holds"] else "DOES NOT HOLD"
        print(f"{one['what']}: {one['ratio']:.3f} ({one['allowed']}) {verdict}")
    print(path)
    return 0 if all(one["holds"] for one in results["claims"]) else 1
