"""claim_halving: iterations to target with the bandwidth of 10 % of the workers halved."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import paper, style
from analysis.findings import Finding, ratio
from analysis.iterations import with_iterations
from analysis.load import Recorded
from analysis.numbers import interval, known, repetitions
from analysis.stats import ENOUGH_RUNS, MedianInterval, PairedRatio
from analysis.variants import Look, look_of

WITHOUT, HALVED = "none", "halved"  # networks of the runs
CLAIM = "halving the bandwidth of 10 % of the workers raises the iterations to converge by 35 %"
PANEL = ["workload", "variant"]
CAPTION = (
    "Iterations to the target with the bandwidth of 10 % of the workers halved, over those"
    " without: every pair of runs of equal seed, their median and 95 % bootstrap interval, and"
    " the paper's ratio."
)


def draw(recorded: Recorded) -> Figure:
    """The picture: one row for each workload and variant; every pair, the median, the paper's."""
    runs = with_iterations(recorded.runs)
    rows = {(key[0], key[1]): _ratios(own) for key, own in runs.groupby(PANEL, sort=False)}
    figure, axis = plt.subplots(figsize=(style.COLUMN_IN, 1.2 + 0.45 * len(rows)))
    for place, ((_, variant), ratios) in enumerate(rows.items()):
        _row(axis, place, ratios, variant)
    names = [_name(*key, ratios) for key, ratios in rows.items()]
    first = look_of(next(variant for _, variant in rows))
    _axes(axis, names, np.concatenate(list(rows.values())), first)
    figure.legend(loc="outside upper center", ncols=2, fontsize=6.5)
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """The numbers behind the picture; a null ratio with n > 0 is infinite or unknown (missed)."""
    runs = with_iterations(recorded.runs)
    return {
        "paper": paper.HALVING_ITERATIONS,
        "lost": len(recorded.lost),
        "cells": {
            f"{workload}/{variant}": _numbers(own)
            for (workload, variant), own in runs.groupby(PANEL, sort=False)
        },
    }


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """The paper's claim for each workload and variant, and why it does not hold, or is open.

    It holds if our interval contains +35 % and nothing from "no rise" down; `holds` is None where
    too few pairs, runs that missed, or a wide interval leave it open.
    """
    return [_finding(name, cell) for name, cell in numbers["cells"].items() if cell["n"]]


def _finding(name: str, cell: dict[str, Any]) -> Finding:
    holds, reason = _verdict(cell["ci95"], cell["n"])
    return Finding(
        f"{CLAIM} ({name})",
        ratio(cell["ratio"], cell["n"]),
        "the interval holds the paper's ratio and lies above 1",
        holds,
        paper.HALVING_ITERATIONS,
        cell["ci95"],
        cell["n"],
        sum(cell["missed"].values()),
        reason,
    )


def _verdict(ci95: list[float | None] | None, n: int) -> tuple[bool | None, str | None]:
    """Whether the claim holds, None if that is open, and why not; an infinite end is None."""
    if n < ENOUGH_RUNS:
        return None, f"{n} pairs of runs: fewer than {ENOUGH_RUNS}"
    low, high = ci95 or (None, None)
    if low is None:
        return None, "no interval: too many runs missed the target"
    if low > paper.HALVING_ITERATIONS:
        return False, "the interval lies above the paper's ratio"
    if high is None:
        return None, "the interval has no upper end: too many runs missed the target"
    if high < paper.HALVING_ITERATIONS:
        return False, "the interval lies below the paper's ratio"
    if low <= 1:
        return None, "the interval contains 1: too wide to tell the paper's ratio from no rise"
    return True, None


def _ratios(runs: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Halved over without, of every pair of runs that had a target."""
    timed = runs[runs["iterations"].notna()]
    pairs = PairedRatio(HALVED, WITHOUT, "network")(timed, "iterations")
    return np.asarray(pairs["ratio"], dtype=float)


def _row(axis: Axes, place: int, ratios: np.ndarray[Any, Any], variant: str) -> None:
    median, low, high, _ = MedianInterval().of(ratios)
    color = look_of(variant).color
    finite = ratios[np.isfinite(ratios)]
    axis.plot(finite, np.full(len(finite), place + 0.2), "o", color=color, alpha=0.4, markersize=3)
    if np.isfinite(median):
        axis.plot([median], [place], marker=look_of(variant).marker, color=color, markersize=6)
        if np.isfinite(low):
            end = high if np.isfinite(high) else 1e9  # past the axis
            axis.hlines(place, low, end, color=color, linewidth=1.4)


def _name(workload: str, variant: str, ratios: np.ndarray[Any, Any]) -> str:
    missed = int((~np.isfinite(ratios)).sum())
    note = f"\n{missed} with a miss" if missed else ""
    return f"{workload}\n{variant}\n({repetitions(len(ratios))}){note}"


def _axes(axis: Axes, names: list[str], ratios: np.ndarray[Any, Any], look: Look) -> None:
    """Axes, and a legend in the look of the first row."""
    finite = ratios[np.isfinite(ratios)]
    ends = [1.0, paper.HALVING_ITERATIONS, *finite]
    margin = 0.06 * (max(ends) - min(ends))
    axis.set_xlim(min(ends) - margin, max(ends) + margin)
    axis.axvline(1.0, color="0.3", linestyle="--", linewidth=0.7)
    reported = f"paper [{paper.CITATION}]: +35 %"
    axis.axvline(
        paper.HALVING_ITERATIONS, color="black", linestyle=":", linewidth=1.1, label=reported
    )
    axis.plot([], [], "o", color=look.color, alpha=0.4, markersize=3, label="a pair of runs")
    label = "median, 95 % interval"
    axis.plot([], [], marker=look.marker, color=look.color, markersize=6, lw=1.4, label=label)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("iterations to target, 10 % of workers\nat half bandwidth / without")


def _numbers(runs: pd.DataFrame) -> dict[str, Any]:
    median, low, high, n = MedianInterval().of(_ratios(runs))
    return {
        "ratio": known(median),
        "ci95": interval(low, high),
        "n": n,
        "missed": {
            network: int(np.isinf(runs.loc[runs["network"] == network, "iterations"]).sum())
            for network in (WITHOUT, HALVED)
        },
        "iterations": {
            network: known(_median(runs[runs["network"] == network]))
            for network in (WITHOUT, HALVED)
        },
    }


def _median(runs: pd.DataFrame) -> float:
    return MedianInterval().of(runs["iterations"].to_numpy(dtype=float))[0]
