"""fig7: convergence against time; rows are workloads, columns clusters, one line a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.findings import AHEAD, Finding, ahead, ratio
from analysis.load import Recorded, metric_curves
from analysis.numbers import interval, known, repetitions
from analysis.stats import ConvergenceBand, MedianInterval, OnCommonTimes, PairedSpeedup
from analysis.variants import look_of

PAPER = "MLfabric converges ahead of the state of the art in every setting shown"
OURS = "mlfabric_a"
PANEL = ["workload", "cluster"]
MARK_SIZES = (7.5, 3.5)  # first to last: none hides another of the same time
CAPTION = (
    "Held-out metric against seconds of training under NS1 and CS2: median run and 95 %"
    " bootstrap interval (shaded); marks on the dashed target are median times to it, with their"
    " intervals, up to the edge where a miss is their end. All policies of a panel live through"
    " the same stragglers, seed by seed."
)


def draw(recorded: Recorded) -> Figure:
    """The picture."""
    runs = recorded.runs
    workloads, clusters = (list(dict.fromkeys(runs[axis])) for axis in PANEL)
    width = style.PAGE_IN if len(clusters) > 1 else style.COLUMN_IN
    figure, axes = plt.subplots(
        len(workloads),
        len(clusters),
        figsize=(width, 1.95 * len(workloads) + 0.35),
        sharey="row",
        squeeze=False,
    )
    for row, workload in enumerate(workloads):
        for column, cluster in enumerate(clusters):
            here = runs[(runs["workload"] == workload) & (runs["cluster"] == cluster)]
            add_panel(axes[row, column], here, f"{workload} on {cluster}")
        axes[row, 0].set_ylabel(metric_label(runs[runs["workload"] == workload]))
    for axis in axes[-1]:
        axis.set_xlabel("time (s)")
    add_legend(figure, list(axes.flat))
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """The numbers behind the picture, one entry a panel.

    A time that is null was not reached by the median run (or has no target); a speedup that is
    null while n > 0 is infinite: the baseline missed the target.
    """
    panels = {}
    for (workload, cluster), here in recorded.runs.groupby(PANEL, sort=False):
        lost = recorded.lost[
            (recorded.lost["workload"] == workload) & (recorded.lost["cluster"] == cluster)
        ]
        panels[f"{workload}/{cluster}"] = {
            "network": here["network"].iloc[0],
            "compute": here["compute"].iloc[0],
            "metric_name": here["metric_name"].iloc[0],
            "policies": {
                policy: _policy_numbers(
                    here[here["variant"] == policy], int((lost["variant"] == policy).sum())
                )
                for policy in style.in_order(set(here["variant"]))
            },
            "speedups": _speedups(here),
        }
    return {"paper": PAPER, "ours": OURS, "cells": panels}


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """MLfabric against each baseline of each panel, by time to target."""
    return [
        Finding(
            f"{panel}: time to target, {baseline} over {OURS}",
            ratio(told["median"], told["n"]),
            f"interval above {AHEAD:g}",
            ahead(told["ci95"]),
            "ahead",
            told["ci95"],
            told["n"],
            told["missed"],
        )
        for panel, cell in numbers["cells"].items()
        for baseline, told in cell["speedups"].items()
        if told["n"]
    ]


def add_panel(axis: Axes, runs: pd.DataFrame, title: str) -> None:
    """Draw one line a variant, and the target."""
    for policy in style.in_order(set(runs["variant"])):
        _policy_line(axis, runs[runs["variant"] == policy], policy)
    fewest = runs.groupby("variant")["seed"].count().min() if len(runs) else 0
    axis.set_title(f"{title} ({repetitions(fewest)})", loc="left")
    axis.set_xlim(left=0)
    _target(axis, runs)


def _policy_line(axis: Axes, runs: pd.DataFrame, policy: str) -> None:
    sampled = OnCommonTimes()(metric_curves(runs), runs.set_index("run_id")["elapsed_s"])
    band = ConvergenceBand()(sampled)
    color = look_of(policy).color
    look: dict[str, Any] = {
        "color": color,
        "linestyle": look_of(policy).dashes,
        "drawstyle": "steps-post",
    }
    axis.plot(band["time_s"], band["median"], label=policy, **look)
    axis.fill_between(
        band["time_s"], band["low"], band["high"], step="post", color=color, alpha=0.2, lw=0
    )


def _target(axis: Axes, runs: pd.DataFrame) -> None:
    """The target as a dashed line, each policy's median time to it as a mark with its interval."""
    targets = runs["target"].dropna()
    if targets.empty:
        return
    target = float(targets.iloc[0])
    axis.axhline(target, color="0.3", linestyle="--", linewidth=0.8, label="target", zorder=1)
    misses = []
    policies = style.in_order(set(runs["variant"]))
    for policy, size in zip(policies, np.linspace(*MARK_SIZES, len(policies)), strict=True):
        times = runs.loc[runs["variant"] == policy, "time_to_target_s"].to_numpy(dtype=float)
        _time_mark(axis, target, times, policy, size)
        missed = int(np.isinf(times).sum())
        if missed:
            misses.append(f"{policy} {missed} of {len(times)}")
    if misses:
        _note(axis, "missed the target:\n" + "\n".join(misses))


def _note(axis: Axes, text: str) -> None:
    """A small text at the left, in the corner that curves leave empty, those that miss included."""
    values = np.asarray(axis.lines[0].get_ydata(), dtype=float)
    height, side = (0.05, "bottom") if values[0] > values[-1] else (0.95, "top")
    axis.text(
        0.02, height, text, transform=axis.transAxes, ha="left", va=side, fontsize=6, color="0.3"
    )


def _time_mark(
    axis: Axes, target: float, times: np.ndarray[Any, Any], policy: str, size: float
) -> None:
    """The median time on the target's line, and its interval, to the edge if it ends in a miss."""
    median, low, high, _ = MedianInterval().of(times)
    if not np.isfinite(median):
        return
    color = look_of(policy).color
    if np.isfinite(low):
        until = high if np.isfinite(high) else axis.get_xlim()[1]
        axis.plot([low, until], [target, target], color=color, linewidth=2.2, alpha=0.5, zorder=3)
    axis.plot(
        [median],
        [target],
        marker=look_of(policy).marker,
        color=color,
        markersize=size,
        markeredgecolor="white",
        markeredgewidth=0.6,
        zorder=4,
    )


def metric_label(runs: pd.DataFrame) -> str:
    """What the metric of these runs is called on an axis."""
    name = str(runs["metric_name"].iloc[0])
    return style.METRIC_LABEL.get(name, name.replace("_", " "))


def add_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend above all panels."""
    handles: dict[str, Artist] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    narrow = figure.get_figwidth() < style.PAGE_IN
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=2 if narrow else min(len(handles), 4),
    )


def _policy_numbers(runs: pd.DataFrame, lost: int) -> dict[str, Any]:
    times = runs["time_to_target_s"].to_numpy(dtype=float)
    median, low, high, n = MedianInterval().of(times)
    final, final_low, final_high, _ = MedianInterval().of(runs["final_metric"].to_numpy(float))
    targets = runs["target"].dropna()
    return {
        "target": known(targets.iloc[0]) if len(targets) else None,
        "time_to_target_s": known(median),
        "ci95": interval(low, high),
        "n": n,
        "missed": int(np.isinf(times).sum()),
        "lost": lost,
        "final_metric": known(final),
        "final_metric_ci95": interval(final_low, final_high),
    }


def _speedups(runs: pd.DataFrame) -> dict[str, Any]:
    """Time to target of each other policy over ours, paired by seed."""
    result = {}
    for baseline in style.in_order(set(runs["variant"]) - {OURS}):
        pairs = PairedSpeedup(baseline, OURS, column="variant")(runs)
        median, low, high, n = MedianInterval().of(pairs["ratio"].to_numpy(dtype=float))
        result[baseline] = {
            "median": known(median),
            "ci95": interval(low, high),
            "n": n,
            "missed": int(pairs["missed"].sum()),
        }
    return result
