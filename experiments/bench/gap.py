"""How far heuristics are from the exact optimum; results/bench/planner_gap.json, .png and .pdf.

`python -m experiments.bench.gap [--instances N]`. All on equal terms: one group an aggregator,
nothing dropped, and all that a plan of the paper's model does falls on the optimum's time slots.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from analysis import style
from analysis.figures import planner_gap
from experiments.bench.instances import FAMILIES, MOST_UPDATES, SLOT_S, draw
from experiments.bench.report import claim, report
from experiments.interrupts import left_to_parent
from experiments.paths import RESULTS
from experiments.progress import Progress
from mlfabric.planning.batch import Batch, Plan
from mlfabric.planning.exact.search import optimum
from mlfabric.planning.planner import plan

PROCESSES = 2
INSTANCES = 700
TIME_LIMIT_S = 30.0
CLAIMED_MEAN_GAP = 0.05
IN_MODEL: dict[str, dict[str, Any]] = {
    "direct": {"aggregation": "none"},
    "paper": {"aggregation": "paper"},
    "paper_best_fit": {"aggregation": "paper", "best_fit": True},
    "refined": {"aggregation": "refined", "best_fit": True},
}
"""Heuristics whose plans the exact problem allows."""
HEURISTICS = {**IN_MODEL, "pipelined": {"aggregation": "pipelined", "best_fit": True}}

Record = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Study, write, print; exit status 1 where the claim does not hold."""
    parser = argparse.ArgumentParser(prog="experiments.bench.gap", description=__doc__)
    parser.add_argument("--instances", type=int, default=INSTANCES, help="in all, at least")
    started = time.monotonic()
    results = study(parser.parse_args(arguments).instances)
    results |= {"seconds": time.monotonic() - started}
    _print_table(results)
    style.apply()
    style.save(planner_gap.draw(results), RESULTS / "bench" / "planner_gap")
    return report("planner_gap", results)


def study(instances: int) -> dict[str, Any]:
    """Gaps over at least so many instances, equally many of each family."""
    per_family = math.ceil(instances / len(FAMILIES))
    records = _studied([(family, index) for family in FAMILIES for index in range(per_family)])
    return {**summarize(records), "instances": records}


def _studied(tasks: Sequence[tuple[str, int]]) -> list[Record]:
    records, progress = [], Progress()
    with multiprocessing.Pool(PROCESSES, initializer=left_to_parent) as pool:
        for record in pool.imap(_study, tasks):
            records.append(record)
            progress.show(f"gap: {len(records)} of {len(tasks)} instances")
    progress.close()
    return records


def _study(task: tuple[str, int]) -> Record:
    """Optimum and heuristics of an instance; drawn again until all plans are on the grid."""
    for attempt in count():
        batch = draw(*task, attempt)
        plans = {name: plan(replace(batch, **how)) for name, how in HEURISTICS.items()}
        if all(on_grid(plans[name]) for name in IN_MODEL):
            return {**_compared(batch, plans), "family": task[0], "redrawn": attempt}
    raise AssertionError("count() does not end")


def _compared(batch: Batch, plans: dict[str, Plan]) -> Record:
    means = {name: found.mean_completion_s for name, found in plans.items()}
    started = time.monotonic()
    best = optimum(
        batch,
        slot_s=SLOT_S,
        reachable_s=min(means[name] for name in IN_MODEL),
        time_limit_s=TIME_LIMIT_S,
    )
    return {
        "updates": len(batch.updates),
        "aggregators": batch.aggregators,
        "optimum_s": best.mean_completion_s if best.proven else None,
        "bound_s": best.bound_s,
        "seconds": time.monotonic() - started,
        "mean_completion_s": means,
    }


def on_grid(found: Plan) -> bool:
    """Whether all transfers start, pause and end at the borders of slots."""
    moments = [
        moment
        for group in found.groups
        for transfer in group.transfers
        for piece in transfer.pieces
        for moment in (piece.start, piece.end)
    ]
    return all(abs(moment / SLOT_S - round(moment / SLOT_S)) < 1e-9 for moment in moments)


def summarize(records: Sequence[Record]) -> dict[str, Any]:
    """Gaps of every heuristic to the optimum as shares of it, in all, by family and by size."""
    proven = [record for record in records if record["optimum_s"] is not None]
    sizes = range(2, MOST_UPDATES + 1)
    return {
        "solved": len(proven),
        "unsolved": len(records) - len(proven),
        "redrawn": sum(record["redrawn"] for record in records),
        "gap": _gaps(proven),
        "gap_by_family": {
            family: _gaps(record for record in proven if record["family"] == family)
            for family in FAMILIES
        },
        "gap_by_updates": {
            str(n): _gaps(record for record in proven if record["updates"] == n) for n in sizes
        },
        "claims": [_claim(name, proven) for name in ("paper", "refined")],
    }


def _gaps(records: Iterable[Record]) -> dict[str, Any]:
    chosen = list(records)
    return {name: _spread(gaps(chosen, name)) for name in HEURISTICS} if chosen else {}


def gaps(records: Iterable[Record], name: str) -> list[float]:
    """Gap of a heuristic in each instance, in ascending order; negative: better than the model."""
    return sorted(r["mean_completion_s"][name] / r["optimum_s"] - 1 for r in records)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "n": len(values),
        "mean": statistics.fmean(values),
        "p95": values[math.ceil(0.95 * len(values)) - 1],
        "max": values[-1],
        "min": values[0],
        "as_good_share": sum(value < 1e-9 for value in values) / len(values),
    }


def _claim(name: str, proven: Sequence[Record]) -> dict[str, object]:
    mean = statistics.fmean(gaps(proven, name))
    what = f"mean gap of {name} to the exact optimum, {len(proven)} instances"
    return claim(what, mean, f"at most {CLAIMED_MEAN_GAP}", mean <= CLAIMED_MEAN_GAP)


def _print_table(results: dict[str, Any]) -> None:
    print(f"{results['solved']} solved, {results['unsolved']} not, {results['redrawn']} redrawn")
    print(f"{'gap to optimum':16}{'mean':>8}{'p95':>8}{'max':>8}{'as good':>9}")
    for name, gap in results["gap"].items():
        row = (f"{gap[key]:8.1%}" for key in ("mean", "p95", "max"))
        print(f"{name:16}{''.join(row)}{gap['as_good_share']:9.0%}")


if __name__ == "__main__":
    sys.exit(main())
