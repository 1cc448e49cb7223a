"""Speedups of MLfabric under every network and compute setting: runs in, one Cell a setting out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis import paper
from analysis.stats import MedianInterval, PairedRatio, PairedSpeedup
from analysis.variants import ASYNC, BASELINES, PAPER_MODE, PIPELINED, RING

VARIANTS = (PAPER_MODE, PIPELINED, RING, ASYNC)


@dataclass(frozen=True)
class Estimate:
    """Median of a ratio over pairs of runs, its 95 % interval, and the pairs with a miss."""

    median: float  # infinite: the baseline missed the target; 0: ours did; NaN: no pair
    low: float
    high: float
    n: int
    missed: int = 0


@dataclass(frozen=True)
class Cell:
    """One network setting under one compute setting.

    The ratios are named paper_mode and pipelined (each over the ring), best_baseline (pipelined
    over the better baseline) and pipelined_over_paper_mode.
    """

    compute: str  # such as "CS1"
    network: str  # such as "NS1"
    best_baseline: str
    speedup: Mapping[str, Estimate]  # time to target, baseline's over ours
    throughput: Mapping[str, Estimate]  # updates applied a second, ours over the baseline's
    runs: Mapping[str, int]  # runs of each variant
    missed: Mapping[str, int]  # those that missed the target

    @property
    def name(self) -> str:
        """As the table calls it: "CS1/NS1"."""
        return f"{self.compute}/{self.network}"

    @property
    def paper(self) -> float:
        """The speedup that the paper reports."""
        return paper.SPEEDUP[self.compute, self.network]

    @property
    def fitted(self) -> bool:
        """Whether our settings were chosen with a look at the paper's value here."""
        return paper.fitted(self.compute, self.network)


@dataclass(frozen=True)
class SpeedupTable:
    """Runs -> the cells that have runs, row by row; pairs have the same seed.

    Takes columns variant, network, compute, seed, time_to_target_s, updates_applied, elapsed_s.
    """

    interval: MedianInterval = field(default_factory=MedianInterval)

    def __call__(self, runs: pd.DataFrame) -> list[Cell]:
        rated = runs.assign(updates_per_s=runs["updates_applied"] / runs["elapsed_s"])
        places = rated["compute"].str.upper(), rated["network"].str.upper()
        cells = dict(iter(rated.groupby(list(places))))
        return [self._cell(*place, cells[place]) for place in paper.SPEEDUP if place in cells]

    def _cell(self, compute: str, network: str, runs: pd.DataFrame) -> Cell:
        best = best_baseline(runs)
        pairs = {
            "paper_mode": (RING, PAPER_MODE),
            "pipelined": (RING, PIPELINED),
            "best_baseline": (best, PIPELINED),
            "pipelined_over_paper_mode": (PAPER_MODE, PIPELINED),
        }
        by_variant = {name: runs[runs["variant"] == name] for name in VARIANTS}
        return Cell(
            compute,
            network,
            best,
            {name: self._speedup(runs, *pair) for name, pair in pairs.items()},
            {name: self._throughput(runs, *pair) for name, pair in pairs.items()},
            {name: len(own) for name, own in by_variant.items()},
            {name: _missed(own) for name, own in by_variant.items()},
        )

    def _speedup(self, runs: pd.DataFrame, baseline: str, ours: str) -> Estimate:
        pairs = PairedSpeedup(baseline, ours, column="variant")(runs)
        estimate = self.interval.of(pairs["ratio"].to_numpy(dtype=float))
        return Estimate(*estimate, missed=int(pairs["missed"].sum()))

    def _throughput(self, runs: pd.DataFrame, baseline: str, ours: str) -> Estimate:
        pairs = PairedRatio(ours, baseline, "variant")(runs, "updates_per_s")
        return Estimate(*self.interval.of(pairs["ratio"].to_numpy(dtype=float)))


def best_baseline(runs: pd.DataFrame) -> str:
    """The baseline with the smaller median time to target; without targets, the faster one.

    Takes columns variant, time_to_target_s, updates_per_s. At a tie it is the ring.
    """
    own = {name: runs[runs["variant"] == name] for name in BASELINES}
    there = [name for name in BASELINES if len(own[name])]
    if not there:
        return RING
    if runs["time_to_target_s"].notna().any():
        return min(there, key=lambda name: _last_if_nan(own[name]["time_to_target_s"]))
    return max(there, key=lambda name: float(own[name]["updates_per_s"].median()))


def _missed(runs: pd.DataFrame) -> int:
    return int(np.isinf(runs["time_to_target_s"].to_numpy(dtype=float)).sum())


def _last_if_nan(times_s: pd.Series) -> float:
    median = float(np.median(times_s.dropna())) if times_s.notna().any() else math.nan
    return math.inf if math.isnan(median) else median


def has_targets(runs: pd.DataFrame) -> bool:
    """Whether these runs had a target; without one there is no speedup, throughput alone."""
    return bool(runs["time_to_target_s"].notna().any())


def log_errors(cells: list[Cell]) -> dict[str, float]:
    """|ln(paper mode / the paper's value)| of every held-out cell that has a speedup."""
    return {
        cell.name: _log_error(cell.speedup["paper_mode"].median, cell.paper)
        for cell in cells
        if not cell.fitted and not math.isnan(cell.speedup["paper_mode"].median)
    }


def _log_error(measured: float, reported: float) -> float:
    return abs(math.log(measured / reported)) if 0 < measured < math.inf else math.inf


def rows_ordered(cells: list[Cell]) -> dict[str, bool | None]:
    """For every CS: whether paper mode gains NS1 > NS3 > NS2, as in the paper; None: unknown."""
    at = _paper_mode(cells)
    return {
        cs: _ordered(at.get((cs, "NS1")), at.get((cs, "NS3")), at.get((cs, "NS2")))
        for cs in paper.COMPUTES
    }


def columns_ordered(cells: list[Cell]) -> dict[str, bool | None]:
    """For every NS: whether paper mode gains CS2 > CS3 >= CS1, as in the paper; None: unknown."""
    at = _paper_mode(cells)
    return {
        ns: _ordered(at.get(("CS2", ns)), at.get(("CS3", ns)), at.get(("CS1", ns)), ties=True)
        for ns in paper.NETWORKS
    }


def _paper_mode(cells: list[Cell]) -> dict[tuple[str, str], float]:
    return {(cell.compute, cell.network): cell.speedup["paper_mode"].median for cell in cells}


def _ordered(
    most: float | None, middle: float | None, least: float | None, ties: bool = False
) -> bool | None:
    if most is None or middle is None or least is None or math.isnan(most + middle + least):
        return None
    return most > middle and (middle >= least if ties else middle > least)
