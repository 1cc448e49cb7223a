"""Statistics over runs, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap

from analysis.stats import ConvergenceBand, MedianInterval, OnCommonTimes, PairedSpeedup

SAMPLE = np.array([3.0, 5.0, 8.0, 9.0, 14.0, 21.0, 22.0])


def runs(**times: list[float]) -> pd.DataFrame:
    """One row a policy and seed."""
    rows = [
        {"policy": policy, "seed": seed, "time_to_target_s": time}
        for policy, values in times.items()
        for seed, time in enumerate(values)
    ]
    return pd.DataFrame(rows)


def speedups(theirs: list[float], ours: list[float]) -> list[float]:
    return list(PairedSpeedup("theirs", "ours")(runs(theirs=theirs, ours=ours))["ratio"])


def test_median_and_interval_agree_with_another_bootstrap() -> None:
    median, low, high, n = MedianInterval(resamples=20000).of(SAMPLE)
    other = bootstrap((SAMPLE,), np.median, method="percentile", n_resamples=20000, rng=1)
    assert (median, n) == (9.0, 7)
    assert low == pytest.approx(other.confidence_interval.low)
    assert high == pytest.approx(other.confidence_interval.high)


def test_same_seed_same_interval_and_the_seed_matters() -> None:
    sample = np.random.default_rng(5).normal(size=40)
    first, again, other = (MedianInterval(seed=seed).of(sample) for seed in (1, 1, 2))
    assert first == again
    assert first[1:3] != other[1:3]


def test_a_wider_level_gives_a_wider_interval() -> None:
    _, low50, high50, _ = MedianInterval(level=0.5).of(SAMPLE)
    _, low95, high95, _ = MedianInterval(level=0.95).of(SAMPLE)
    assert low95 < low50 <= 9.0 <= high50 < high95


def test_one_value_has_no_interval_and_none_has_nothing() -> None:
    assert MedianInterval().of(np.array([4.0]))[0] == 4.0
    assert math.isnan(MedianInterval().of(np.array([4.0]))[1])
    assert MedianInterval().of(np.array([]))[3] == 0


def test_misses_are_infinite_values_and_not_left_out() -> None:
    one_miss = MedianInterval().of(np.array([10.0, 12.0, math.inf]))
    two_misses = MedianInterval().of(np.array([10.0, math.inf, math.inf]))
    assert (one_miss[0], one_miss[2]) == (12.0, math.inf)
    assert two_misses[0] == math.inf


def test_a_nan_makes_the_median_nan() -> None:
    median, low, high, n = MedianInterval().of(np.array([1.0, math.nan, 3.0]))
    assert (math.isnan(median), math.isnan(low), math.isnan(high), n) == (True, True, True, 3)


def test_groups_are_kept_apart() -> None:
    frame = pd.DataFrame({"policy": ["a", "a", "a", "b"], "x": [1.0, 2.0, 9.0, 7.0]})
    result = MedianInterval()(frame, "x", ["policy"]).set_index("policy")
    assert result.loc["a", ["median", "n"]].tolist() == [2.0, 3]
    assert result.loc["b", ["median", "n"]].tolist() == [7.0, 1]


def test_speedup_is_baseline_over_ours_in_pairs() -> None:
    assert speedups([20.0, 30.0, 8.0], [10.0, 10.0, 16.0]) == [2.0, 3.0, 0.5]


@pytest.mark.parametrize(
    ("theirs", "ours", "ratio"),
    [(math.inf, 10.0, math.inf), (10.0, math.inf, 0.0), (math.inf, math.inf, 0.0)],
)
def test_a_miss_decides_a_pair(theirs: float, ours: float, ratio: float) -> None:
    pairs = PairedSpeedup("theirs", "ours")(runs(theirs=[theirs], ours=[ours]))
    assert pairs[["ratio", "missed"]].to_numpy().tolist() == [[ratio, True]]


def test_only_equal_seeds_are_paired() -> None:
    frame = runs(theirs=[20.0, 30.0], ours=[10.0, 10.0])
    without = frame.drop(frame[(frame["policy"] == "theirs") & (frame["seed"] == 0)].index)
    assert PairedSpeedup("theirs", "ours")(without)[["seed", "ratio"]].to_numpy().tolist() == [
        [1, 3.0]
    ]


def test_runs_without_a_target_give_no_speedup() -> None:
    assert speedups([math.nan], [math.nan]) == []


def test_a_curve_holds_its_last_value_and_ends_with_its_run() -> None:
    curves = pd.DataFrame(
        {"run_id": "r", "elapsed_s": [1.0, 2.5, 4.0], "value": [10.0, 20.0, 30.0]}
    )
    later = pd.DataFrame({"run_id": "later", "elapsed_s": [1.5, 4.01], "value": [7.0, 8.0]})
    ends_s = pd.Series({"r": 5.0, "later": 6.0, "longer": 7.0})
    sampled = OnCommonTimes()(pd.concat([curves, later]), ends_s)
    assert sampled.columns.tolist() == [1.0, 1.5, 2.5, 4.01, 5.0, 6.0, 7.0]
    expected = [10.0, 10.0, 20.0, 30.0, 30.0, math.nan, math.nan]
    np.testing.assert_array_equal(sampled.loc["r"].to_numpy(), expected)
    expected = [math.nan, 7.0, 7.0, 8.0, 8.0, 8.0, math.nan]
    np.testing.assert_array_equal(sampled.loc["later"].to_numpy(), expected)
    assert sampled.loc["longer"].isna().all()


def test_a_band_ends_where_the_first_run_ends() -> None:
    sampled = pd.DataFrame(
        [[1.0, 2.0, 3.0], [3.0, 4.0, math.nan], [8.0, 9.0, 1.0]], columns=[0.0, 1.0, 2.0]
    )
    band = ConvergenceBand()(sampled)
    assert band["time_s"].tolist() == [0.0, 1.0]
    assert band["median"].tolist() == [3.0, 4.0]
    assert band["n"].tolist() == [3, 3]
    assert (band["low"] <= band["median"]).all()
    assert band["high"].tolist() == [8.0, 9.0]
