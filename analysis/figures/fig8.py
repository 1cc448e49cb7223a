"""fig8: update messages over links of each bandwidth class, and whether slow links carry fewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from analysis import style
from analysis.findings import Finding
from analysis.link_classes import LinkFactors, class_shares
from analysis.load import Recorded, read_config, read_table
from analysis.numbers import interval, known, repetitions
from analysis.stats import MedianInterval
from analysis.variants import look_of

PAPER = "slow links carry fewer update messages"
PANEL = ["workload", "cluster"]
_MBIT_PER_BYTE = 8e-6
_BAR_WIDTH = 0.26
CAPTION = (
    "Update messages a run by the bandwidth of the slowest link on their way (above), and their"
    " share over the share of time that the same links spent at that bandwidth (below; 1: sent"
    " blindly). A ring's messages are shares of an update: its bars compare with no other policy's."
    " Medians of runs, 95 % bootstrap intervals."
)


def draw(recorded: Recorded) -> Figure:
    """The picture: counts above, their share relative to blind sending below."""
    counted = _counted(recorded.runs)
    panels = list(counted.groupby(PANEL, sort=False))
    figure, axes = plt.subplots(
        2,
        len(panels),
        figsize=(style.PAGE_IN if len(panels) > 2 else style.COLUMN_IN, 3.6),
        sharex="col",
        sharey="row",
        squeeze=False,
    )
    for column, ((workload, cluster), here) in enumerate(panels):
        fewest = here.groupby("variant")["run_id"].nunique().min()
        axes[0, column].set_title(f"{workload}\n{cluster}\n({repetitions(fewest)})")
        _counts(axes[0, column], here)
        _relative(axes[1, column], here)
        axes[1, column].set_xlabel("slowest link (Mbit/s)")
    axes[0, 0].set_ylabel("update messages a run")
    axes[1, 0].set_ylabel("share of messages /\nshare of time")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """The numbers behind the picture: for each panel, policy and class."""
    panels: dict[str, Any] = {}
    for (workload, cluster), here in _counted(recorded.runs).groupby(PANEL, sort=False):
        panels[f"{workload}/{cluster}"] = {
            policy: {
                f"{factor:g}": _class_numbers(of_class)
                for factor, of_class in here[here["variant"] == policy].groupby("factor")
            }
            for policy in style.in_order(set(here["variant"]))
        }
    return {"paper": PAPER, "lost": len(recorded.lost), "cells": panels}


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """Whether the slowest links carry fewer messages than their share of the time."""
    found = []
    for panel, policies in numbers["cells"].items():
        for policy, classes in policies.items():
            slowest = classes[min(classes, key=float)]
            ci95 = slowest["relative_ci95"]
            high = None if ci95 is None else ci95[1]
            found.append(
                Finding(
                    f"{panel}, {policy}: messages over the slowest links, over their share of time",
                    slowest["relative"],
                    "interval below 1",
                    None if high is None else high < 1,
                    "fewer",
                    ci95,
                    slowest["n"],
                )
            )
    return found


def _counted(runs: pd.DataFrame) -> pd.DataFrame:
    """Classes of every run: PANEL, variant, run_id, rate_bytes_per_s and what class_shares gives.

    A class that a run never met has no messages there, and no relative share (0 over 0).
    """
    parts = [
        class_shares(
            read_table(run, "trace.parquet"), LinkFactors(_link_changes(run), run.elapsed_s)
        ).set_index("factor")
        for run in runs.itertuples()
    ]
    factors = sorted(set().union(*(part.index for part in parts)))
    labelled = []
    for run, part in zip(runs.itertuples(), parts, strict=True):
        rate = read_config(run)["cluster"]["bandwidth_bytes_per_s"]
        labels = {key: getattr(run, key) for key in [*PANEL, "variant", "run_id"]}
        classes = part.reindex(factors, fill_value=0).rename_axis("factor").reset_index()
        classes["relative"] = classes["share"] / classes["time_share"]
        labelled.append(classes.assign(**labels, rate_bytes_per_s=classes["factor"] * rate))
    return pd.concat(labelled, ignore_index=True)


def _link_changes(run: Any) -> pd.DataFrame:
    """Changes as they were applied, or as they were planned where nothing was emulated."""
    applied = (Path(run.folder) / "network_applied.csv").exists()
    return read_table(run, "network_applied.csv" if applied else "network_trace.csv")


def _counts(axis: Axes, here: pd.DataFrame) -> None:
    for policy, places, rows in _bars(axis, here, "messages"):
        axis.bar(places, rows["median"], _BAR_WIDTH, color=look_of(policy).color, label=policy)
        tops = rows[["median", "high"]].max(axis=1)
        for place, top, value in zip(places, tops, rows["median"], strict=True):
            axis.text(place, 1.05 * top, f"{value:.0f}", fontsize=5, ha="center", va="bottom")
        _whiskers(axis, places, rows, "0.2")
    axis.set_yscale("symlog", linthresh=1)  # logarithmic, with a place for 0
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_ylim(0, max(4 * here["messages"].max(), axis.get_ylim()[1]))  # room for the labels


def _relative(axis: Axes, here: pd.DataFrame) -> None:
    for policy, places, rows in _bars(axis, here[here["relative"].notna()], "relative"):
        axis.plot(
            places,
            rows["median"],
            linestyle="none",
            marker=look_of(policy).marker,
            markersize=5,
            color=look_of(policy).color,
            clip_on=False,
        )
        _whiskers(axis, places, rows, look_of(policy).color)
    axis.axhline(1.0, color="0.3", linestyle="--", linewidth=0.8)
    axis.set_ylim(0, 1.1 * axis.get_ylim()[1])


def _bars(axis: Axes, here: pd.DataFrame, value: str) -> list[tuple[str, Any, pd.DataFrame]]:
    """For each policy: where its bars stand, and their medians; labels the classes on the axis."""
    rates = sorted(here["rate_bytes_per_s"].unique())
    policies = style.in_order(set(here["variant"]))
    axis.set_xticks(range(len(rates)), [f"{rate * _MBIT_PER_BYTE:.3g}" for rate in rates])
    axis.grid(visible=False, axis="x")
    result = []
    for number, policy in enumerate(policies):
        rows = MedianInterval()(here[here["variant"] == policy], value, ["rate_bytes_per_s"])
        offset = (number - (len(policies) - 1) / 2) * _BAR_WIDTH
        places = np.array([rates.index(rate) for rate in rows["rate_bytes_per_s"]]) + offset
        result.append((policy, places, rows))
    return result


def _whiskers(axis: Axes, places: Any, rows: pd.DataFrame, color: str) -> None:
    axis.vlines(places, rows["low"], rows["high"], color=color, linewidth=0.9)


def _class_numbers(rows: pd.DataFrame) -> dict[str, Any]:
    messages, low, high, n = MedianInterval().of(rows["messages"].to_numpy(dtype=float))
    relative = rows["relative"].dropna().to_numpy(dtype=float)
    middle, relative_low, relative_high, _ = MedianInterval().of(relative)
    return {
        "messages": known(messages),
        "ci95": interval(low, high),
        "share": known(rows["share"].median()),
        "time_share": known(rows["time_share"].median()),
        "relative": known(middle),
        "relative_ci95": interval(relative_low, relative_high),
        "n": n,
    }
