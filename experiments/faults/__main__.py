"""`python -m experiments.faults [--virtual N] [--real N]`: the campaign; results/bench/faults.json.

A schedule of faults is drawn from each seed, carried out on the virtual clock (where the run is
also interrupted once, and goes on from its checkpoint) or on real ranks, and the run held against
the invariants. Exit status 1 where one of them is broken.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import Any

from experiments.bench.report import claim, report
from experiments.faults import counting, real
from experiments.faults.invariants import complaint, of
from experiments.faults.schedules import Schedule, draw
from experiments.interrupts import INTERRUPTED, interrupt_once
from experiments.progress import Progress
from mlfabric.emulation.availability import unavailable

CarryOut = Callable[[Schedule], tuple[counting.Rows, counting.Seen]]
FIRST_REAL_SEED = 100_000


def main(arguments: list[str]) -> int:
    """Carry the campaign out, write and print what it came to."""
    parser = argparse.ArgumentParser(prog="python -m experiments.faults", description=__doc__)
    parser.add_argument("--virtual", type=int, default=300, help="schedules on the virtual clock")
    parser.add_argument("--real", type=int, default=24, help="schedules on real ranks")
    asked = parser.parse_args(arguments)
    interrupt_once()
    try:
        return _campaign(asked.virtual, asked.real)
    except KeyboardInterrupt:
        print("interrupted; nothing is left running", file=sys.stderr)
        return INTERRUPTED


def _campaign(virtual: int, ranks: int) -> int:
    schedules = [draw(seed) for seed in range(virtual)]
    results = {"virtual": _summary(_carried_out(schedules, counting.carry_out, "virtual clock"))}
    refused = unavailable() if ranks else None
    if refused is not None:
        print(f"real ranks: skipped, no emulated cluster here: {refused}")
    elif ranks:
        seeds = range(FIRST_REAL_SEED, FIRST_REAL_SEED + ranks)
        own = [real.real_schedule(seed) for seed in seeds]
        results["real"] = _summary(_carried_out(own, real.carry_out, "real ranks"))
    claims = [
        claim(
            f"runs that keep every invariant, {engine}",
            told["kept"] / max(told["runs"], 1),
            f"1: all of {told['runs']}",
            told["kept"] == told["runs"],
        )
        for engine, told in results.items()
    ]
    return report("faults", {**results, "claims": claims})


def _carried_out(schedules: list[Schedule], carry_out: CarryOut, what: str) -> list[dict[str, Any]]:
    found, progress = [], Progress()
    for number, schedule in enumerate(schedules, start=1):
        progress.show(f"faults on {what}: {number} of {len(schedules)}")
        found.append(_one(schedule, carry_out))
    progress.close()
    for one in found:
        if one["broken"] is not None:
            print(f"{one['label']}: {one['broken']}")
    return found


def _one(schedule: Schedule, carry_out: CarryOut) -> dict[str, Any]:
    """What became of one run."""
    told: dict[str, Any] = {"seed": schedule.seed, "label": schedule.label}
    try:
        rows, seen = carry_out(schedule)
    except Exception as error:  # whatever it is, it is told with the seed that repeats it
        kinds = [_kind(fault.kind, fault.host) for fault in schedule.faults]
        story = f"{type(error).__name__}: {error}"
        return {**told, "broken": story, "faults": kinds, "lost_updates": 0, "recovery_s": []}
    at = {row["host"]: row["at_s"] for row in of(rows, "fault")}
    losses = {row["elapsed_s"]: row["host"] for row in of(rows, "loss")}
    return {
        **told,
        "broken": complaint(schedule, rows, seen),
        "faults": [_kind(row["kind"], row["host"]) for row in of(rows, "fault")],
        "lost_updates": sum(len(row["updates"]) for row in of(rows, "lost")),
        "recovery_s": [
            row["elapsed_s"] - at[losses[row["lost_s"]]]
            for row in of(rows, "recovery")
            if losses.get(row["lost_s"]) in at
        ],
    }


def _kind(kind: str, host: str | None) -> str:
    """Which part the victim played."""
    if kind == "partition":
        return kind
    return host if host in ("server", "replica") else "worker or aggregator"


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over all runs, and each of them."""
    injected = Counter(kind for run in runs for kind in run["faults"])
    survived = Counter(kind for run in runs if run["broken"] is None for kind in run["faults"])
    recoveries = sorted(s for run in runs for s in run["recovery_s"])
    return {
        "runs": len(runs),
        "kept": sum(run["broken"] is None for run in runs),
        "injected": dict(sorted(injected.items())),
        "survived": dict(sorted(survived.items())),
        "lost_updates": sum(run["lost_updates"] for run in runs),
        "recovery_s": {
            "median": median(recoveries) if recoveries else None,
            "most": recoveries[-1] if recoveries else None,
        },
        "each": runs,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
