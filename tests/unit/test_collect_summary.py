"""run.json: every number worked out by hand from a small made-up run."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pandas as pd
import pytest

from experiments.collect import Records, computations, metrics, totals, transfers, updates
from experiments.outcome import result_line
from experiments.overrides import validate
from experiments.schema import RunConfig
from experiments.summary import Metric, finished, time_to_target_s, unfinished

LOSS = Metric("loss", "min")
KEYS = {
    *("status", "policy", "workload", "framework", "network", "compute", "engine", "emulation"),
    *("cluster", "seed", "updates_applied", "updates_dropped", "elapsed_s", "target", "delay"),
    *("time_to_target_s", "final_metric", "metric_name", "bytes_by_link", "push_bytes"),
    *("pull_bytes", "compute_overrun_fraction", "mlflow_run_id"),
}


@pytest.fixture(scope="module")
def config() -> RunConfig:
    overrides = ["workload=resnet_mnist5k", "workload.targets.laptop=0.5", "network=ns1", "seed=4"]
    return validate(overrides, multirun=False)[0]


def transfer(kind: str, src: str, hop: str, size: int) -> dict[str, Any]:
    times = {"requested_s": 0.0, "started_s": 1.0, "ended_s": 2.0}
    ends = {"src": src, "dst": "server", "next_hop": hop, "complete": True}
    what = {"row": "transfer", "kind": kind, "shard": 0, "updates": ["a"], "bytes": size}
    return what | ends | times


def update(delay: int, status: str = "applied") -> dict[str, Any]:
    applied = {"version_applied": 1 if status == "applied" else None, "delay": delay}
    fixed = {
        "id": "a",
        "shard": 0,
        "worker": 0,
        "iteration": 0,
        "version_pulled": 0,
        "resolved_s": 1.0,
    }
    return {"row": "update", "status": status, "norm": 1.0, "push_bytes": 1, **fixed, **applied}


def told(*rows: dict[str, Any]) -> pd.DataFrame:
    return updates([*rows, {"row": "totals", "shard": 0, "version": 999}])


def ended(applied: int, dropped: int) -> dict[str, Any]:
    counts = {"version": applied, "applied": applied, "dropped": dropped}
    return {"row": "totals", "shard": 0, "shards": 1, "elapsed_s": 6.5, **counts}


def computation(overran: bool) -> dict[str, Any]:
    times = {"started_s": 0.0, "real_s": 0.1, "emulated_s": 0.3}
    return {"row": "computation", "worker": 0, "iteration": 0, "overran": overran, **times}


def scores(*losses: float) -> pd.DataFrame:
    return metrics(
        {"version": 10 * i, "elapsed_s": 2.0 * i, "loss": loss} for i, loss in enumerate(losses)
    )


@pytest.fixture
def records() -> Records:
    return Records(
        transfers(
            [
                transfer("update", "w1", "w2", 100),
                transfer("update", "w2", "w2", 1000),  # stays on its host: on no link
                transfer("sum", "w2", "server", 100),
                transfer("model", "server", "w1", 30),
                transfer("model", "w1", "w2", 30),
            ]
        ),
        told(*(update(delay) for delay in (0, 1, 2, 3)), update(99, "dropped")),
        computations([computation(False)] * 50),
        scores(2.3, 1.0, 0.4, 0.6),
        totals([ended(4, 1)]),
    )


def test_a_finished_run(config: RunConfig, records: Records) -> None:
    summary = finished(config, "run-1", LOSS, records)
    assert set(summary) >= KEYS
    assert summary["status"] == "finished"
    assert summary["reason"] is None
    names = ("policy", "workload", "framework", "network", "compute", "engine", "cluster", "seed")
    assert [summary[name] for name in names] == [
        *("mlfabric_a", "resnet_mnist5k", "torch", "ns1", "none", "mpi", "laptop", 4)
    ]
    assert (summary["updates_applied"], summary["updates_dropped"]) == (4, 1)
    # delays 0 1 2 3: mean 1.5; 95th percentile 2.85 between the last two; 8 workers: bound 14
    assert summary["delay"] == pytest.approx({"mean": 1.5, "p95": 2.85, "max": 3.0, "bound": 14})
    assert summary["bytes_by_link"] == {
        "server": {"egress": 30, "ingress": 100},
        "w1": {"egress": 130, "ingress": 30},
        "w2": {"egress": 100, "ingress": 130},
    }
    assert (summary["push_bytes"], summary["pull_bytes"]) == (200, 60)
    assert (summary["target"], summary["time_to_target_s"]) == (0.5, 4.0)
    assert (summary["final_metric"], summary["elapsed_s"]) == (0.6, 6.5)
    assert summary["emulation"] == "netns"
    json.dumps(summary, allow_nan=False)
    assert result_line(summary) == (
        "4 updates applied, 1 dropped in 6.5 s, loss 0.6, target 0.5 reached after 4.0 s"
    )


@pytest.mark.parametrize(
    ("goal", "values", "target", "seconds"),
    [
        ("min", (2.0, 1.0, 0.5), 0.5, 4.0),  # exactly at the target counts
        ("min", (2.0, 0.4, 0.6), 0.5, 2.0),  # the first time, though it is lost again
        ("min", (2.0, 1.0, 0.6), 0.5, None),
        ("max", (0.1, 0.6, 0.7), 0.5, 2.0),
        ("max", (0.6, 0.1, 0.1), 0.5, None),  # the untrained model reached it
        ("max", (0.6, 0.6, 0.1), 0.5, 2.0),
        ("min", (math.nan, math.nan), 0.5, None),  # NaN is no result, whatever the goal
        ("max", (math.nan, math.nan), 0.5, None),
        ("min", (math.nan, 0.1), 0.5, 2.0),
        ("min", (2.0, 0.1), None, None),
        ("min", (), 0.5, None),
    ],
)
def test_time_to_target_is_the_first_snapshot_at_or_past_it(
    goal: Any, values: tuple[float, ...], target: float | None, seconds: float | None
) -> None:
    assert time_to_target_s(scores(*values), Metric("loss", goal), target) == seconds


def test_of_several_servers_the_mean_is_told(config: RunConfig, records: Records) -> None:
    """Two servers have applied four updates' shares between them."""
    both = [{**ended(3, 1), "shards": 2}, {**ended(1, 0), "shard": 1, "shards": 2}]
    several = dataclasses.replace(records, totals=totals(both))
    summary = finished(config, None, LOSS, several)
    assert (summary["status"], summary["updates_applied"]) == ("finished", 2)


def test_a_diverged_run_has_no_final_metric(config: RunConfig, records: Records) -> None:
    diverged = dataclasses.replace(records, metrics=scores(2.3, math.nan))
    summary = finished(config, "run-1", LOSS, diverged)
    assert summary["final_metric"] is None
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize(("overran", "status"), [(1, "finished"), (2, "invalid")])
def test_more_than_two_percent_of_overruns_make_a_run_invalid(
    config: RunConfig, records: Records, overran: int, status: str
) -> None:
    rows = [computation(True)] * overran + [computation(False)] * (50 - overran)
    summary = finished(
        config, None, LOSS, dataclasses.replace(records, computations=computations(rows))
    )
    assert (summary["status"], summary["compute_overrun_fraction"]) == (status, overran / 50)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"updates": told(*[update(0)] * 3)}, "3 applied updates were recorded, but 4 were"),
        ({"metrics": scores()}, "no snapshot was evaluated"),
        (
            {"updates": told(*[update(15)] * 4, update(0, "dropped"))},
            "an update of delay 15 was applied; the bound is 14",
        ),
        (
            {
                "updates": told(update(0, "dropped")),
                "totals": totals([ended(0, 1)]),
            },
            "no update was applied",
        ),
    ],
)
def test_contradicting_records_make_a_run_invalid(
    config: RunConfig, records: Records, change: dict[str, Any], reason: str
) -> None:
    summary = finished(config, None, LOSS, dataclasses.replace(records, **change))
    assert summary["status"] == "invalid"
    assert reason in summary["reason"]


def test_a_timed_run_needs_no_snapshot(records: Records) -> None:
    asked = ["engine=virtual", "cluster=paper", "workload.timing_only=true"]
    (timed,) = validate([*asked, "workload.targets.paper=-7"], multirun=False)
    summary = finished(timed, None, LOSS, dataclasses.replace(records, metrics=scores()))
    assert (summary["status"], summary["reason"], summary["timing_only"]) == (
        "finished",
        None,
        True,
    )
    assert (summary["emulation"], summary["target"], summary["final_metric"]) == (None, None, None)
    json.dumps(summary, allow_nan=False)
    assert result_line(summary) == "4 updates applied, 1 dropped in 6.5 s, nothing trained"


def test_a_failed_run_has_every_key_and_no_result(config: RunConfig, records: Records) -> None:
    failed = unfinished(config, None, "the disk is full")
    assert set(failed) == set(finished(config, None, LOSS, records))
    assert (failed["status"], failed["reason"]) == ("failed", "the disk is full")
    assert failed["time_to_target_s"] is None
    assert failed["delay"] == {"mean": None, "p95": None, "max": None, "bound": 14}


def test_a_virtual_run_that_ends_before_the_first_update_is_a_miss(records: Records) -> None:
    (config,) = validate(["engine=virtual", "workload=resnet_mnist5k"], multirun=False)
    assert config.delay_bound is not None
    early = dataclasses.replace(records, updates=told(), totals=totals([ended(0, 0)]))
    assert finished(config, None, LOSS, early)["status"] == "finished"
