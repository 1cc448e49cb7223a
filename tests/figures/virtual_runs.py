"""Made-up runs of the virtual clock: frames as analysis.load gives them, tables in folders."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.load import COLUMNS, Recorded
from analysis.plan import CELL
from analysis.variants import ASYNC, PAPER_MODE, PIPELINED, RING, variants_of

COMPUTES, NETWORKS = ("cs1", "cs2", "cs3"), ("ns1", "ns2", "ns3")
# Time to target in seconds by variant in an undisturbed cell.
TIMES = {PAPER_MODE: 40.0, PIPELINED: 28.0, RING: 60.0, ASYNC: 90.0}
# How much longer the ring takes there, by setting.
HARSH = {"cs1": 1.0, "cs2": 1.6, "cs3": 1.1, "ns1": 1.3, "ns2": 1.0, "ns3": 1.15}


def run_row(variant: str, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """One run of a variant; it takes a second for every update, and 100 s in all."""
    policy, _, aggregation = variant.partition(" ")
    row: dict[str, Any] = {
        **dict.fromkeys(COLUMNS, None),
        "run_id": f"{variant}-{seed}-{sorted(changes.items())}",
        "status": "finished",
        "workload": "resnet_digits",
        "cluster": "paper",
        "network": "ns1",
        "compute": "cs1",
        "policy": policy,
        "seed": seed,
        "engine": "virtual",
        "workers": 30,
        "aggregation": aggregation or ("paper" if policy == "mlfabric_a" else None),
        "metric_name": "heldout_loss",
        "final_metric": 0.5,
        "elapsed_s": 100.0,
        "target": 0.6,
        "time_to_target_s": 50.0,
        "updates_applied": 100.0,
        "mean_delay": 20.0,
        "delay_bound": math.nan,
    }
    return row | changes


def recorded(rows: Sequence[dict[str, Any]], lost: Sequence[dict[str, Any]] = ()) -> Recorded:
    """These runs as a figure gets them."""
    frame = pd.DataFrame(rows, columns=COLUMNS)
    gone = pd.DataFrame(lost, columns=[*CELL, "variant", "status"])
    return Recorded(frame.assign(variant=variants_of(frame)), gone)


def table_rows(seeds: int, spread: float = 0.08) -> list[dict[str, Any]]:
    """Runs of all nine cells and four variants; the ring suffers most from stragglers."""
    rows = []
    for compute, network, variant in itertools.product(COMPUTES, NETWORKS, TIMES):
        rng = np.random.default_rng([len(variant), ord(compute[2]), ord(network[2])])
        harsh = (HARSH[compute] * HARSH[network]) ** (1.0 if variant == RING else 0.25)
        for seed in range(seeds):
            time_s = TIMES[variant] * harsh * rng.uniform(1 - spread, 1 + spread)
            changes = {"compute": compute, "network": network, "time_to_target_s": time_s}
            rate = 60.0 / time_s
            rows.append(run_row(variant, seed, **changes, updates_applied=100 * rate))
    return rows


def recorded_run(folder: Path, variant: str, iterations: int, **changes: Any) -> dict[str, Any]:
    """A run with tables in a folder of its own: a snapshot every 10 updates, one a second; it
    reaches its target with the one of version `iterations`."""
    row = run_row(variant, **changes)
    place = folder / row["run_id"].replace("/", "-")
    place.mkdir(parents=True)
    versions = np.arange(0, iterations + 31, 10)
    metrics = pd.DataFrame({"version": versions, "elapsed_s": versions / 10, "heldout_loss": 1.0})
    metrics.to_parquet(place / "metrics.parquet")
    rng = np.random.default_rng(row["seed"])
    delays = np.fmin(rng.poisson(row["mean_delay"], 400), row["delay_bound"])
    updates = pd.DataFrame({"delay": delays, "status": "applied"})
    dropped = pd.DataFrame({"delay": [10_000], "status": ["dropped"]})
    pd.concat([updates, dropped]).to_parquet(place / "updates.parquet")
    timed = {"time_to_target_s": iterations / 10, "mean_delay": float(delays.mean())}
    return row | timed | {"folder": str(place)} | {k: v for k, v in changes.items() if k in timed}


def write_config(folder: Path, row: dict[str, Any], update_bytes: float | None) -> dict[str, Any]:
    """The run with a configuration: C = 0.25 s and a link of 1.25e9 bytes/s."""
    place = folder / row["run_id"].replace("/", "-")
    place.mkdir(parents=True)
    cluster = {"compute_s": 0.25, "bandwidth_bytes_per_s": 1.25e9, "update_bytes": update_bytes}
    (place / "config.json").write_text(json.dumps({"cluster": cluster}))
    return row | {"folder": str(place)}
