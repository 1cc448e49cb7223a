"""scale: throughput and delay against the number of workers, beside the bounds of physics."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from analysis import style
from analysis.bounds import Bounds, bounds_of
from analysis.findings import Finding
from analysis.load import Recorded, read_config
from analysis.numbers import interval, known, repetitions
from analysis.stats import MedianInterval
from analysis.variants import BASELINES, PIPELINED, look_of

# Name, label and dashes of a bound.
BOUNDS = {
    "compute": ("compute: n/C", (0, (1, 1))),
    "server_link": ("server's link: B/S", (0, (6, 2))),
    "ring": ("ring: n/(C + 2(n−1)/n·S/B)", (0, (3, 1, 1, 1))),
}
NOTE = "n workers; C: seconds to compute an update; S: its bytes; B: bytes/s of a link, each way."
_VALUES = ("updates_per_s", "mean_delay")
CAPTION = (
    "Updates applied a second (above) and their mean delay (below) against the number of"
    " workers, without stragglers and without training, beside the bounds that computation and"
    " links set. " + NOTE
)


def draw(recorded: Recorded) -> Figure:
    """The picture: updates applied a second above, their mean delay below."""
    runs = _rated(recorded.runs)
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(style.COLUMN_IN, 4.4), sharex=True, height_ratios=[1.4, 1]
    )
    for variant in style.in_order(set(runs["variant"])):
        own = runs[runs["variant"] == variant]
        _line(above, own, "updates_per_s", variant)
        _line(below, own, "mean_delay", variant)
    _bounds(above, _shared_bounds(runs), runs)
    _axes(above, below, runs)
    handles, labels = above.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=6.5)
    style.note(figure, NOTE)
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """The numbers behind the picture, by variant and number of workers, and the bounds."""
    runs = _rated(recorded.runs)
    counts = np.array(sorted(set(runs["workers"])), dtype=float)
    bounds = _shared_bounds(runs)
    return {
        "lost": len(recorded.lost),
        "cells": {
            variant: {
                f"{workers:g}": _numbers(own)
                for workers, own in runs[runs["variant"] == variant].groupby("workers")
            }
            for variant in style.in_order(set(runs["variant"]))
        },
        "bounds_updates_per_s": {
            name: {
                f"{workers:g}": known(value)
                for workers, value in zip(counts, getattr(bounds, name)(counts), strict=True)
            }
            for name in BOUNDS
        },
    }


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """How pipelined sums compare with each baseline on the largest cluster."""
    ours = numbers["cells"].get(PIPELINED, {})
    return [
        Finding(
            f"{size} workers: updates a second, {PIPELINED} over {baseline}",
            round(ours[size]["updates_per_s"] / rates[size]["updates_per_s"], 4),
            "above 1",
            ours[size]["updates_per_s"] > rates[size]["updates_per_s"],
            n=min(ours[size]["n"], rates[size]["n"]),
        )
        for baseline, rates in numbers["cells"].items()
        for size in [max(rates, key=float)]
        if baseline in BASELINES and size in ours
    ]


def _rated(runs: pd.DataFrame) -> pd.DataFrame:
    rate = runs["updates_applied"] / runs["elapsed_s"]
    return runs.assign(updates_per_s=rate, workers=runs["workers"].astype(float))


def _shared_bounds(runs: pd.DataFrame) -> Bounds:
    return bounds_of(read_config(next(runs.itertuples())))


def _line(axis: Axes, runs: pd.DataFrame, value: str, variant: str) -> None:
    rows = MedianInterval()(runs[runs[value].notna()], value, ["workers"]).sort_values("workers")
    color = look_of(variant).color
    axis.plot(
        rows["workers"],
        rows["median"],
        color=color,
        linestyle=look_of(variant).dashes,
        marker=look_of(variant).marker,
        markersize=4.5,
        label=variant,
    )
    axis.vlines(rows["workers"], rows["low"], rows["high"], color=color, linewidth=0.9)


def _bounds(axis: Axes, bounds: Bounds, runs: pd.DataFrame) -> None:
    workers = np.geomspace(runs["workers"].min(), runs["workers"].max(), 60)
    for name, (label, dashes) in BOUNDS.items():
        values = getattr(bounds, name)(workers)
        axis.plot(workers, values, color="0.35", linestyle=dashes, linewidth=0.8, label=label)


def _axes(above: Axes, below: Axes, runs: pd.DataFrame) -> None:
    counts = sorted(set(runs["workers"]))
    fewest = runs.groupby(["variant", "workers"])["seed"].count().min()
    above.set_title(f"{runs['cluster'].iloc[0]} ({repetitions(fewest)})", loc="left")
    above.set_xscale("log")
    above.set_yscale("log")
    above.set_ylabel("updates applied a second")
    below.set_yscale("symlog", linthresh=1)  # logarithmic, with a place for the ring's 0
    below.set_ylim(-0.15, 2.5 * max(1.0, below.get_ylim()[1]))
    below.set_ylabel("mean delay (versions)")
    below.set_xlabel("workers")
    below.xaxis.set_major_locator(FixedLocator(counts))
    below.xaxis.set_minor_locator(NullLocator())
    below.yaxis.set_minor_locator(NullLocator())
    below.set_xticklabels([f"{count:,.0f}" for count in counts])


def _numbers(runs: pd.DataFrame) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for value in _VALUES:
        median, low, high, n = MedianInterval().of(runs[value].dropna().to_numpy(dtype=float))
        result |= {value: known(median), f"{value}_ci95": interval(low, high), "n": n}
    return result | {"n": len(runs)}
