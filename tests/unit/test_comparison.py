"""Runs beside each other: what tells them apart, and ratios worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.comparison import as_rows, compare, told, with_labels
from analysis.figures import performance_profile, sweep
from analysis.load import Recorded
from analysis.stats import PerformanceProfile

INF, NAN = np.inf, np.nan


def run(folder: Path, policy: str, seed: int, time_s: float, **changes: Any) -> dict[str, Any]:
    """A run of ten updates a second with a configuration of a few keys."""
    config: dict[str, Any] = {
        "seed": seed,
        "experiment": "adhoc",
        "policy": {"name": policy, "delay_bound": changes.get("delay_bound")},
        "network": {"name": changes.get("network", "ns1"), "probability": 0.1},
        "cluster": {"name": "laptop", "workers": changes.get("workers", 8)},
    }
    if config["network"]["name"] == "none":
        config["network"]["probability"] = 0.0
    place = folder / f"{policy}-{seed}-{sorted(changes.items())}"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    return {
        "run_id": place.name,
        "folder": str(place),
        "policy": policy,
        "seed": seed,
        "time_to_target_s": time_s,
        "updates_applied": changes.get("updates", 100),
        "elapsed_s": 10.0,
    }


def test_a_choice_is_named_where_it_differs_and_a_key_where_a_choice_has_several(
    tmp_path: Path,
) -> None:
    rows = [
        run(tmp_path, "ring_allreduce", 0, 20.0),
        run(tmp_path, "mlfabric_a", 0, 10.0, delay_bound=15),
        run(tmp_path, "mlfabric_a", 0, 10.0, delay_bound=30),
        run(tmp_path, "ring_allreduce", 0, 20.0, network="none", workers=4),
    ]
    labelled = with_labels(pd.DataFrame(rows))
    assert list(labelled["variant"]) == [
        "ring_allreduce",
        "mlfabric_a delay_bound=15",
        "mlfabric_a delay_bound=30",
        "ring_allreduce",
    ]
    assert list(labelled["setting"]) == [
        *["ns1 workers=8"] * 3,
        "none workers=4",
    ]


def test_ratios_are_of_pairs_and_a_miss_is_infinite_or_a_failure(tmp_path: Path) -> None:
    times = {"ring_allreduce": [20.0, 30.0, INF], "mlfabric_a": [10.0, 10.0, 10.0]}
    rows = [
        run(tmp_path, policy, seed, time_s, updates=100 if policy == "mlfabric_a" else 50)
        for policy, of_policy in times.items()
        for seed, time_s in enumerate(of_policy)
    ]
    speedup, rate = compare(with_labels(pd.DataFrame(rows)))
    assert (speedup.variant, speedup.baseline) == ("mlfabric_a", "ring_allreduce")
    assert (speedup.median, speedup.low, speedup.high, speedup.n) == (3.0, 2.0, INF, 3)
    assert (rate.measure, rate.median, rate.n) == ("updates_per_s", 2.0, 3)
    assert (
        told(rate) == "mlfabric_a over ring_allreduce, updates a second: 2.00 [2.00, 2.00] (n = 3)"
    )
    assert json.loads(json.dumps(as_rows([speedup]), allow_nan=False))[0]["high"] == "inf"
    slower, _ = compare(with_labels(pd.DataFrame(rows)), baseline="mlfabric_a")
    assert slower.median == pytest.approx(1 / 3)
    assert slower.low == 0.0  # the ring missed once


def test_the_better_of_several_baselines_counts(tmp_path: Path) -> None:
    rows = [
        run(tmp_path, "async_ps", 0, 40.0, delay_bound=1),
        run(tmp_path, "async_ps", 0, 20.0, delay_bound=2),
        run(tmp_path, "mlfabric_a", 0, 10.0),
    ]
    found = compare(with_labels(pd.DataFrame(rows)))
    (ours,) = (r for r in found if (r.variant, r.measure) == ("mlfabric_a", "time_to_target"))
    assert ours.baseline == "async_ps delay_bound=2"
    assert ours.median == 2.0
    assert np.isnan(ours.low)  # one pair gives no interval


def rows_of(times: dict[str, list[float]]) -> pd.DataFrame:
    """A run a policy and problem; problems are seeds."""
    return pd.DataFrame(
        [
            {"variant": name, "seed": seed, "time_to_target_s": time_s}
            for name, of_policy in times.items()
            for seed, time_s in enumerate(of_policy)
        ]
    )


def test_a_profile_counts_every_problem_and_a_miss_as_never() -> None:
    runs = rows_of({"a": [10.0, 20.0, INF, INF], "b": [20.0, 20.0, 30.0, INF]})
    lost = pd.DataFrame(columns=["variant", "seed"])
    ratios = PerformanceProfile(("seed",))(runs, lost)
    assert ratios["a"].tolist() == [1.0, 1.0, INF, INF]
    assert ratios["b"].tolist() == [2.0, 1.0, 1.0, INF]
    shares = PerformanceProfile.shares(ratios["b"])
    assert shares.to_dict() == {1.0: 0.5, 2.0: 0.75}
    assert PerformanceProfile.shares(ratios["a"]).to_dict() == {1.0: 0.5}


def test_a_lost_run_counts_as_a_miss_and_a_run_without_target_nowhere() -> None:
    runs = rows_of({"a": [10.0, NAN], "b": [NAN, NAN]})[:3]
    lost = pd.DataFrame([{"variant": "b", "seed": 0}, {"variant": "b", "seed": 1}])
    ratios = PerformanceProfile(("seed",))(runs, lost)
    assert ratios.index.tolist() == [0]
    assert ratios.loc[0].to_dict() == {"a": 1.0, "b": INF}


def test_the_profile_is_drawn_and_summed_up() -> None:
    place = {"workload": "w", "cluster": "c", "network": "ns1", "compute": "cs1"}
    runs = rows_of(
        {"mlfabric_a": [10.0] * 5, "ring_allreduce": [20.0, 5.0, 20.0, INF, 20.0]}
    ).assign(**place)
    recorded = Recorded(runs, pd.DataFrame(columns=[*place, "seed", "variant", "status"]))
    numbers = performance_profile.summarize(recorded)
    assert (numbers["settings"], numbers["n"], numbers["runs"]) == (1, 5, 5)
    assert numbers["cells"]["mlfabric_a"] == {"1": 0.8, "1.5": 0.8, "2": 1.0, "4": 1.0}
    (finding,) = performance_profile.findings(numbers)
    assert (finding.ours, finding.holds) == ("80% against 20%", True)
    figure = performance_profile.draw(recorded)
    figure.canvas.draw()
    assert figure.axes[0].get_ylabel() == "share of 5 runs"


def test_a_sweep_is_drawn_with_a_panel_a_setting(tmp_path: Path) -> None:
    rows = [
        run(tmp_path, policy, seed, 3.0, network=network)
        | {"workload": "w", "metric_name": "loss", "target": 0.5, "final_metric": 0.1}
        for policy in ("mlfabric_a", "mine")
        for network in ("none", "ns1")
        for seed in (0, 1)
    ]
    for row in rows:
        metrics = pd.DataFrame({"elapsed_s": [0.0, 3.0, 6.0], "loss": [1.0, 0.5, 0.1]})
        metrics.to_parquet(Path(row["folder"]) / "metrics.parquet")
    figure = sweep.draw(with_labels(pd.DataFrame(rows)))
    figure.canvas.draw()
    assert [axis.get_title("left") for axis in figure.axes] == [
        "none (indicative, n = 2)",
        "ns1 (indicative, n = 2)",
    ]
