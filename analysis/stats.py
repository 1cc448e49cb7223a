"""Statistics over runs: each a small dataclass, frame in, frame out. Same seed, same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ENOUGH_RUNS = 5  # fewer are only indicative


@dataclass(frozen=True)
class MedianInterval:
    """Median and percentile bootstrap interval of a column within each group.

    The result has one row a group: the `by` columns, then median, low, high, n. Infinities are
    ordinary values (quantiles are taken without interpolating). NaN values give a NaN median;
    fewer than two values give no interval (NaN).
    """

    level: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def __call__(self, frame: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
        rows = [
            (*key, *self.of(group[value].to_numpy(dtype=float)))
            for key, group in frame.groupby(list(by), sort=False)
        ]
        return pd.DataFrame(rows, columns=[*by, "median", "low", "high", "n"])

    def of(self, values: NDArray[np.float64]) -> tuple[float, float, float, int]:
        """(median, low, high, n) of a one-dimensional sample."""
        if len(values) == 0:
            return np.nan, np.nan, np.nan, 0
        median, low, high = self.columns(values[:, None])
        return float(median[0]), float(low[0]), float(high[0]), len(values)

    def columns(self, samples: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Median, low and high of every column; whole rows are resampled together."""
        runs = len(samples)
        median = np.median(samples, axis=0)
        if runs < 2:
            return median, np.full_like(median, np.nan), np.full_like(median, np.nan)
        picks = np.random.default_rng(self.seed).integers(runs, size=(self.resamples, runs))
        medians = np.median(samples[picks], axis=1)
        tail = (1 - self.level) / 2
        low, high = np.quantile(medians, [tail, 1 - tail], axis=0, method="inverted_cdf")
        unknown = np.isnan(median)
        return median, np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


SAME_MOMENT_S = 0.05
"""Snapshots of several runs that are due at one time are taken within less."""


class OnCommonTimes:
    """Curves at all times at which one of them changes or ends: a value holds until the next one.

    Takes columns run_id, elapsed_s, value and each run's end in seconds; returns one row a run
    (index) and one column a time, NaN before the first snapshot and past the run's end. Of times
    that follow each other at once the last one counts.
    """

    def __call__(self, curves: pd.DataFrame, ends_s: pd.Series) -> pd.DataFrame:
        times_s = np.unique(np.concatenate([curves["elapsed_s"], ends_s]))
        times_s = times_s[np.append(np.diff(times_s) > SAME_MOMENT_S, True)]
        rows = {
            run_id: _hold(curve["elapsed_s"].to_numpy(), curve["value"].to_numpy(), times_s, end_s)
            for run_id, end_s in ends_s.items()
            for curve in [curves[curves["run_id"] == run_id]]
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=times_s)


@dataclass(frozen=True)
class ConvergenceBand:
    """Median curve with its interval, where every run still has a value.

    Takes what OnCommonTimes returns; gives columns time_s, median, low, high, n.
    """

    interval: MedianInterval = MedianInterval()

    def __call__(self, sampled: pd.DataFrame) -> pd.DataFrame:
        median, low, high = self.interval.columns(sampled.to_numpy(dtype=float))
        frame = pd.DataFrame(
            {"time_s": sampled.columns, "median": median, "low": low, "high": high}
        ).assign(n=len(sampled))
        return frame[frame["median"].notna()].reset_index(drop=True)


@dataclass(frozen=True)
class PairedSpeedup:
    """Time to target of a baseline over ours, in pairs that differ in the policy alone.

    Takes runs with `column`, time_to_target_s and the `pair` columns; runs without a target are
    left out. Returns one row a pair: the `pair` columns, ratio, missed. A baseline that misses
    gives an infinite ratio; ours missing is a failure, ratio 0, whatever the baseline did.
    """

    baseline: str
    ours: str
    pair: tuple[str, ...] = ("seed",)
    column: str = "policy"

    def __call__(self, runs: pd.DataFrame) -> pd.DataFrame:
        timed = runs[runs["time_to_target_s"].notna()]
        theirs, own = (
            timed[timed[self.column] == name].set_index(list(self.pair))["time_to_target_s"]
            for name in (self.baseline, self.ours)
        )
        pairs = pd.concat({"theirs": theirs, "own": own}, axis=1, join="inner").astype(float)
        both = pairs.to_numpy()
        ratio = np.divide(
            both[:, 0], both[:, 1], out=np.zeros(len(both)), where=np.isfinite(both[:, 1])
        )
        return pairs.assign(ratio=ratio, missed=np.isinf(both).any(axis=1)).reset_index()[
            [*self.pair, "ratio", "missed"]
        ]


@dataclass(frozen=True)
class PairedRatio:
    """A value of the runs named `above` over that of those named `below`, pair by pair.

    Takes runs with `column` and the `pair` columns; returns one row a pair: the `pair` columns and
    ratio, as division has it: infinite over finite is infinite, both infinite or 0 are NaN.
    """

    above: str
    below: str
    column: str
    pair: tuple[str, ...] = ("seed",)

    def __call__(self, runs: pd.DataFrame, value: str) -> pd.DataFrame:
        over, under = (
            runs[runs[self.column] == name].set_index(list(self.pair))[value].astype(float)
            for name in (self.above, self.below)
        )
        pairs = pd.concat({"over": over, "under": under}, axis=1, join="inner")
        return (pairs["over"] / pairs["under"]).rename("ratio").reset_index()


@dataclass(frozen=True)
class PerformanceProfile:
    """Time to target of every policy over the fastest one's, problem by problem.

    A problem is one setting and seed, told apart by the `problem` columns. Takes runs with
    `column`, time_to_target_s and these, and the planned runs that are `lost`. Returns one row a
    problem and one column a policy, at least 1; infinite where the target was missed, the run is
    lost, or nobody reached it. Problems without a target are left out (Dolan and More 2002).
    """

    problem: tuple[str, ...]
    column: str = "variant"

    def __call__(self, runs: pd.DataFrame, lost: pd.DataFrame) -> pd.DataFrame:
        keys = [*self.problem, self.column]
        gone = lost[keys].assign(time_to_target_s=np.inf)
        timed = runs.loc[runs["time_to_target_s"].notna(), [*keys, "time_to_target_s"]]
        known = timed[list(self.problem)].drop_duplicates()
        everyone = pd.concat([timed, gone.merge(known, on=list(self.problem))], ignore_index=True)
        times = everyone.astype({"time_to_target_s": float}).pivot_table(
            "time_to_target_s", list(self.problem), self.column, aggfunc="min", observed=True
        )
        fastest = times.min(axis=1).replace(np.inf, np.nan)
        return times.div(fastest, axis=0).fillna(np.inf)

    @staticmethod
    def shares(ratios: pd.Series) -> pd.Series:
        """Share of the problems with a ratio up to each that occurs, and up to 1; index: ratios."""
        levels = np.unique(np.append(ratios[np.isfinite(ratios)], 1.0))
        return pd.Series([float((ratios <= level).mean()) for level in levels], index=levels)


def _hold(
    changes_s: NDArray[np.float64],
    values: NDArray[np.float64],
    times_s: NDArray[np.float64],
    end_s: float,
) -> NDArray[np.float64]:
    last = np.searchsorted(changes_s, times_s, side="right") - 1
    known = (last >= 0) & (times_s <= end_s + SAME_MOMENT_S)
    return np.where(known, values[np.maximum(last, 0)] if len(values) else np.nan, np.nan)
