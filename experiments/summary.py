"""Records and settings of a run -> the content of its run.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pandas as pd

from experiments.collect import Records
from experiments.rows import Row
from experiments.schema import RunConfig
from experiments.sections import VirtualEngineConfig
from mlfabric import policies

# A run is invalid if more of its computations took longer than the nominal time [ours].
OVERRUN_LIMIT = 0.02

Summary = dict[str, Any]


class Metric(NamedTuple):
    """The metric in which a workload's target is stated."""

    name: str
    goal: Literal["min", "max"]


def unfinished(config: RunConfig, run_id: str | None, why: str) -> Summary:
    """The run.json of a run that failed: every key is there, results are null."""
    results = dict.fromkeys(
        (
            *("updates_applied", "updates_dropped", "elapsed_s", "time_to_target_s"),
            *("final_metric", "metric_name", "bytes_by_link", "push_bytes", "pull_bytes"),
            *("replica_bytes", "divergence", "compute_overrun_fraction"),
            *("fault_host", "fault_s", "detection_s", "recovery_s", "lost_updates"),
        )
    )
    delay = {"mean": None, "p95": None, "max": None, "bound": config.delay_bound}
    identity = _identity(config, run_id)
    return {"status": "failed", "reason": why, **identity, **results, "delay": delay}


def finished(config: RunConfig, run_id: str | None, metric: Metric, records: Records) -> Summary:
    """The run.json of a run that came to its end; "invalid", and why, if not to be trusted."""
    flaw = find_flaw(config, records)
    final = records.metrics[metric.name].iloc[-1] if len(records.metrics) else math.nan
    return {
        "status": "invalid" if flaw else "finished",
        "reason": flaw,
        **_identity(config, run_id),
        "updates_applied": records.totals["applied"],
        "updates_dropped": records.totals["dropped"],
        "elapsed_s": float(records.totals["elapsed_s"]),
        "time_to_target_s": time_to_target_s(records.metrics, metric, config.target),
        "final_metric": _finite(final),
        "metric_name": metric.name,
        "delay": delay_statistics(records.updates) | {"bound": config.delay_bound},
        "bytes_by_link": bytes_by_link(records.transfers),
        "push_bytes": _bytes_of(records.transfers, "update", "sum", "share"),
        "pull_bytes": _bytes_of(records.transfers, "model"),
        "replica_bytes": _bytes_of(records.transfers, "copy", "chain", "state"),
        "divergence": divergence(records),
        **consequences(records.events),
        "compute_overrun_fraction": overrun_fraction(records.computations),
    }


def find_flaw(config: RunConfig, records: Records) -> str | None:
    """Why a run that ended is not valid, in one line; None if it is."""
    counts = records.updates["status"].value_counts()
    # The workers of a synchronous sum learn at slightly different times that the run is over.
    slack = config.cluster.workers - 1 if policies.is_collective(config.policy.name) else 0
    for status in ("applied", "dropped"):
        recorded, counted = int(counts.get(status, 0)), records.totals["parts"][status]
        if abs(recorded - counted) > slack:
            return f"{recorded} {status} updates were recorded, but {counted} were counted"
    if not counts.get("applied", 0) and not isinstance(config.engine, VirtualEngineConfig):
        return "no update was applied"  # on the virtual clock that is a link's doing: a miss
    if records.metrics.empty and not config.workload.timing_only:
        return "no snapshot was evaluated"
    delays, bound = records.updates["delay"][_applied(records.updates)], config.delay_bound
    if bound is not None and (delays > bound).any():
        return f"an update of delay {delays.max()} was applied; the bound is {bound}"
    if config.fault.name != "none" and not any(row["row"] == "fault" for row in records.events):
        return f"fault={config.fault.name} did not come about before the run ended"
    overran = overrun_fraction(records.computations)
    if overran > OVERRUN_LIMIT:
        return (
            f"{overran:.1%} of the computations overran their nominal time, more than"
            f" {OVERRUN_LIMIT:.0%}: raise cluster.compute_s or leave the machine to the run"
        )
    return None


def time_to_target_s(metrics: pd.DataFrame, metric: Metric, target: float | None) -> float | None:
    """Clock of the first snapshot at or past the target; None when missed.

    NaN never reaches it, and the untrained model does not count.
    """
    passed = [
        row["elapsed_s"] for row in metrics.to_dict("records") if reached(row, metric, target)
    ]
    return float(min(passed)) if passed else None


def reached(row: Mapping[str, Any], metric: Metric, target: float | None) -> bool:
    """Whether one snapshot of a trained model is at or past the target."""
    if target is None or row["version"] == 0:
        return False
    value = row[metric.name]
    return bool(value >= target if metric.goal == "max" else value <= target)


def delay_statistics(updates: pd.DataFrame) -> dict[str, float | None]:
    """Mean, 95th percentile and maximum of the delays of applied updates, in versions."""
    delays = updates["delay"][_applied(updates)].astype("float64")
    if delays.empty:
        return {"mean": None, "p95": None, "max": None}
    return {
        "mean": float(delays.mean()),
        "p95": float(delays.quantile(0.95)),
        "max": float(delays.max()),
    }


def bytes_by_link(transfers: pd.DataFrame) -> dict[str, dict[str, int]]:
    """Bytes over each host's egress and ingress link; what stays on its host crosses none."""
    crossing = transfers[transfers["src"] != transfers["next_hop"]]
    egress = crossing.groupby("src")["bytes"].sum()
    ingress = crossing.groupby("next_hop")["bytes"].sum()
    return {
        str(host): {"egress": int(egress.get(host, 0)), "ingress": int(ingress.get(host, 0))}
        for host in sorted({*egress.index, *ingress.index})
    }


def divergence(records: Records) -> dict[str, Any] | None:
    """How far a replica was from its server; None where there was none.

    `max` and `mean` over snapshots (L2; L1 for counts), `exceeded` how many were beyond `bound`;
    `promised_max` is the most that the scheduler let it be; both null where there is no bound.
    """
    distances, promises = records.distances["distance"], records.promises
    if distances.empty:
        return None
    bound = _finite_or_none(promises["bound"].dropna().max())
    return {
        "bound": bound,
        "promised_max": _finite_or_none(promises["promised"].max()),
        "max": float(distances.max()),
        "mean": float(distances.mean()),
        "exceeded": None if bound is None else int((distances > bound).sum()),
    }


def consequences(events: Sequence[Row]) -> dict[str, Any]:
    """What was done to which host and when, how long until that was known and until something was
    applied again, and how many updates that had been applied are in no model any more.

    Null where no fault was injected; of times also where nothing was lost (a partition).
    """
    faults = [row for row in events if row["row"] == "fault"]
    if not faults:
        names = ("fault_host", "fault_s", "detection_s", "recovery_s", "lost_updates")
        return dict.fromkeys(names)
    first = {row["row"]: row for row in reversed(events)}
    at_s = faults[0]["at_s"]
    known, again = (first.get(kind, {}).get("elapsed_s") for kind in ("loss", "recovery"))
    return {
        "fault_host": faults[0]["host"],
        "fault_s": at_s,
        "detection_s": None if known is None else known - at_s,
        "recovery_s": None if again is None else again - at_s,
        "lost_updates": sum(len(row["updates"]) for row in events if row["row"] == "lost"),
    }


def overrun_fraction(computations: pd.DataFrame) -> float:
    """Share of the computations that took longer than the nominal time."""
    return float(computations["overran"].mean()) if len(computations) else 0.0


def _identity(config: RunConfig, run_id: str | None) -> Summary:
    return {
        "policy": config.policy.name,
        "workload": config.workload.name,
        "framework": config.workload.framework,
        "network": config.network.name,
        "compute": config.compute.name,
        "engine": config.engine.name,
        "emulation": config.emulation,
        "cluster": config.cluster.name,
        "servers": config.cluster.servers,
        "colocated": config.cluster.colocated,
        "replication": config.replication.name,
        "fault": config.fault.name,
        "seed": config.seed,
        "timing_only": config.workload.timing_only,
        "target": config.target,
        "mlflow_run_id": run_id,
    }


def _applied(updates: pd.DataFrame) -> pd.Series:
    return updates["status"] == "applied"


def _bytes_of(transfers: pd.DataFrame, *kinds: str) -> int:
    crossing = transfers[transfers["src"] != transfers["next_hop"]]
    return int(crossing.loc[crossing["kind"].isin(kinds), "bytes"].sum())


def _finite_or_none(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
