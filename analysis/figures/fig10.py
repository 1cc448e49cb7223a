"""fig10: iterations to target against the delay bound, beside the delays that were measured."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from analysis import paper, style
from analysis.findings import Finding, Interval
from analysis.iterations import with_iterations
from analysis.load import Recorded, read_table
from analysis.numbers import interval, known, repetitions
from analysis.stats import MedianInterval
from analysis.variants import look_of

SOURCE = f"theory [{paper.CITATION}]: O(τ̄·√t/t), so iterations to a fixed level grow as τ̄²"
SHAPE = "∝ τ̄²: upper bound's shape, no fit"
_DODGE = 0.28
CAPTION = (
    "Iterations to the target against the bound on delays (above; medians, 95 % bootstrap"
    " intervals; dotted: the shape of the theory's upper bound, no fit), and the delays that were"
    " measured (below; violins, 5 to 95 %, mean)."
)


def draw(recorded: Recorded) -> Figure:
    """The picture: iterations above, delays below, one place on the x axis for each bound."""
    runs = with_iterations(recorded.runs)
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(style.COLUMN_IN, 3.7), sharex=True, height_ratios=[1.15, 1]
    )
    bounds = _bounds(runs)
    variants = style.in_order(set(runs["variant"]))
    for number, variant in enumerate(variants):
        shift = (number - (len(variants) - 1) / 2) * _DODGE
        own = runs[runs["variant"] == variant]
        _iterations(above, own, bounds, shift, variant)
        _delays(below, own, bounds, shift, look_of(variant).color)
    _shape(above, runs[runs["variant"] == variants[0]], bounds)
    _axes(above, below, runs, bounds)
    _legend(figure)
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """The numbers behind the picture; a null of iterations with n > 0 is a miss of the median."""
    runs = with_iterations(recorded.runs)
    bounds = _bounds(runs)
    return {
        "source": SOURCE,
        "lost": len(recorded.lost),
        "cells": {
            variant: {
                _name(bound): _bound_numbers(_of_bound(own, bound))
                for bound in bounds
                if len(_of_bound(own, bound))
            }
            for variant in style.in_order(set(runs["variant"]))
            for own in [runs[runs["variant"] == variant]]
        },
        "shape_of_bound": {
            _name(bound): known(value)
            for bound, value in bound_shape(runs[runs["variant"] == _first(runs)]).items()
        },
    }


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """Whether the tightest bound needs the fewest iterations, as the theory would have it."""
    return [
        Finding(
            f"{variant}: iterations with the tightest bound over those without one",
            round(tight["iterations"] / free["iterations"], 4),
            "below 1, with intervals that do not meet",
            _apart(tight["ci95"], free["ci95"]),
            "delays bounded near their mean converge faster",
            n=min(tight["n"], free["n"]),
            missed=tight["missed"] + free["missed"],
        )
        for variant, cells in numbers["cells"].items()
        for tight, free in [(next(iter(cells.values())), cells.get("none", {}))]
        if tight["iterations"] and free.get("iterations")
    ]


def _apart(lower: Interval, upper: Interval) -> bool | None:
    """Whether one interval lies below another; None where an end that decides is not known."""
    if lower is None or upper is None or lower[1] is None or upper[0] is None:
        return None
    return lower[1] < upper[0]


def bound_shape(runs: pd.DataFrame) -> dict[float, float]:
    """Iterations if they grew as the square of the measured mean delay, by delay bound (infinite:
    none), through the median at the smallest bound; empty where that missed the target."""
    bounds = _bounds(runs)
    medians = {bound: _of_bound(runs, bound) for bound in bounds}
    start = MedianInterval().of(medians[bounds[0]]["iterations"].to_numpy(dtype=float))[0]
    first = float(medians[bounds[0]]["mean_delay"].median())
    if not math.isfinite(start) or not first > 0:
        return {}
    return {
        bound: start * (float(own["mean_delay"].median()) / first) ** 2
        for bound, own in medians.items()
    }


def _first(runs: pd.DataFrame) -> str:
    return style.in_order(set(runs["variant"]))[0]


def _bounds(runs: pd.DataFrame) -> list[float]:
    """Every delay bound, smallest first; none is infinite."""
    return sorted(set(runs["delay_bound"].fillna(math.inf)))


def _of_bound(runs: pd.DataFrame, bound: float) -> pd.DataFrame:
    return runs[runs["delay_bound"].fillna(math.inf) == bound]


def _name(bound: float) -> str:
    return "none" if math.isinf(bound) else f"{bound:g}"


def _iterations(
    axis: Axes, runs: pd.DataFrame, bounds: list[float], shift: float, variant: str
) -> None:
    color = look_of(variant).color
    points = []
    for place, bound in enumerate(bounds):
        values = _of_bound(runs, bound)["iterations"].to_numpy(dtype=float)
        median, low, high, _ = MedianInterval().of(values)
        _missed(axis, place, values)
        points.append(median if math.isfinite(median) else math.nan)
        if math.isfinite(median) and not math.isnan(low):
            end = high if math.isfinite(high) else 1e12
            axis.vlines([place + shift], low, end, color=color, linewidth=1.0)
    axis.plot(
        np.arange(len(bounds)) + shift,
        points,
        marker=look_of(variant).marker,
        linestyle="none",
        markersize=5,
        color=color,
        label=f"{variant}, median",
    )


def _missed(axis: Axes, place: int, values: np.ndarray[Any, Any]) -> None:
    missed = int(np.isinf(values).sum())
    if missed:
        axis.text(
            place,
            0.02,
            f"{missed} of {len(values)}\nmissed",
            transform=axis.get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize=5.5,
            color="0.3",
        )


def _shape(axis: Axes, runs: pd.DataFrame, bounds: list[float]) -> None:
    """The upper bound's shape; the axis ends above what was measured, wherever the shape goes."""
    measured = runs["iterations"].to_numpy(dtype=float)
    finite = measured[np.isfinite(measured)]
    shape = bound_shape(runs)
    if shape:
        places = [bounds.index(bound) for bound in shape]
        axis.plot(
            places, list(shape.values()), color="0.35", linestyle=":", linewidth=1.0, label=SHAPE
        )
    if len(finite):
        reach = min(max([*shape.values(), finite.max()]), 30 * finite.max())
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_ylim(finite.min() / 2.2, 1.6 * reach)


def _delays(axis: Axes, runs: pd.DataFrame, bounds: list[float], shift: float, color: str) -> None:
    """Violins of the delays of applied updates, all runs of a bound together."""
    for place, bound in enumerate(bounds):
        delays = measured_delays(_of_bound(runs, bound))
        if len(delays) == 0:
            continue
        if delays.min() < delays.max():
            parts: dict[str, Any] = axis.violinplot(
                [delays], [place + shift], widths=0.55, showextrema=False
            )
            for body in parts["bodies"]:
                body.set(facecolor=color, alpha=0.45, linewidth=0)
        low, high = np.quantile(delays, [0.05, 0.95])
        axis.vlines([place + shift], low, high, color="0.2", linewidth=1.2)
        axis.plot([place + shift], [delays.mean()], "x", color="0.2", markersize=4)


def measured_delays(runs: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Delays, in versions, of the applied updates of all these runs."""
    parts = [np.array([])]
    for run in runs.itertuples():
        updates = read_table(run, "updates.parquet")
        applied = updates.loc[updates["status"] == "applied", "delay"]
        parts.append(applied.to_numpy(dtype=float))
    return np.concatenate(parts)


def _axes(above: Axes, below: Axes, runs: pd.DataFrame, bounds: list[float]) -> None:
    workers = float(runs["workers"].iloc[0])
    counts = [len(_of_bound(own, b)) for _, own in runs.groupby("variant") for b in bounds]
    target = "" if runs["iterations"].notna().any() else ", no target: no result"
    above.set_title(f"{runs['workload'].iloc[0]} ({repetitions(min(counts))}{target})", loc="left")
    above.set_ylabel("iterations to target")
    above.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    above.yaxis.set_minor_formatter(NullFormatter())
    for place, bound in enumerate(bounds):
        if math.isfinite(bound):
            below.hlines(bound, place - 0.32, place + 0.32, color="0.2", linewidth=0.9)
    below.plot([], [], color="0.2", linewidth=0.9, label="bound τmax")
    below.plot([], [], "x-", color="0.2", markersize=4, label="mean delay τ̄, 5–95 %")
    below.set_ylabel("delay (versions)")
    below.set_ylim(0, 1.05 * below.get_ylim()[1])
    below.set_xlabel("delay bound τmax")
    below.set_xticks(range(len(bounds)), [_tick(bound, workers) for bound in bounds])
    below.grid(visible=False, axis="x")


def _legend(figure: Figure) -> None:
    handles: list[Artist] = []
    labels: list[str] = []
    for axis in figure.axes:
        own_handles, own_labels = axis.get_legend_handles_labels()
        handles += own_handles
        labels += own_labels
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=6.5)


def _tick(bound: float, workers: float) -> str:
    if math.isinf(bound):
        return "none"
    share = bound / workers
    times = {0.5: "n/2", 1.0: "n"}.get(share, f"{share:.3g} n")
    return f"{times}\n= {bound:g}"


def _bound_numbers(runs: pd.DataFrame) -> dict[str, Any]:
    values = runs["iterations"].to_numpy(dtype=float)
    median, low, high, n = MedianInterval().of(values)
    delays = measured_delays(runs)
    quantiles = np.quantile(delays, [0.05, 0.5, 0.95]) if len(delays) else [math.nan] * 3
    return {
        "iterations": known(median),
        "ci95": interval(low, high),
        "n": n,
        "missed": int(np.isinf(values).sum()),
        "mean_delay": known(runs["mean_delay"].median()),
        "delay_p5_p50_p95": [known(value) for value in quantiles],
    }
