"""replication: what it costs that a replica follows the server, and how closely it does."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.findings import Finding
from analysis.load import Recorded, read_table
from analysis.numbers import interval, known, repetitions
from analysis.stats import MedianInterval, PairedRatio
from analysis.variants import LOOKS

NONE, CHAIN, BOUNDED = "none", "chain", "bounded"
COST = 1.05
"""A bounded replica may take so much longer an update than none, at most."""

MEASURES = {
    "update_s": "seconds an update",
    "server_mb": "MB an update\nout of the server's link",
    "time_to_target_s": "time to target (s)",
}
CAPTION = (
    "Time an update, bytes out of the server's link and time to the target, without a replica, with"
    " chain replication and with bounded replication at three bounds (in rounds of updates), with"
    " and without network stragglers: medians, 95 % bootstrap intervals. Last panel: the measured"
    " distance of the two models over the bound, one run each."
)
_SETTINGS = ("o", "^", "s", "D")
_DODGE = 0.24


def draw(recorded: Recorded) -> Figure:
    """The picture: a panel a measure, one place on the x axis for each scheme; then distances."""
    runs = with_costs(recorded.runs)
    figure, panels = plt.subplots(2, 2, figsize=(style.PAGE_IN, 3.9))
    *measured, last = panels.flat
    schemes, settings = _schemes(runs), sorted(set(runs["setting"]))
    for axis, (column, label) in zip(measured, MEASURES.items(), strict=True):
        for number, setting in enumerate(settings):
            shift = (number - (len(settings) - 1) / 2) * _DODGE
            _points(axis, runs[runs["setting"] == setting], schemes, column, shift, number)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.set_xticks(range(len(schemes)), [_short(scheme) for scheme in schemes])
    measured[-1].set_xlabel("replication (bounded: rounds of updates)")
    _distances(last, runs, schemes)
    handles, labels = measured[0].get_legend_handles_labels()
    runs_each = int(runs.groupby(["scheme", "setting"]).size().min())
    what = (", ".join(sorted(set(runs[key]))) for key in ("workload", "cluster", "policy"))
    title = f"{', '.join(what)}: {repetitions(runs_each)}"
    figure.legend(
        handles, labels, loc="outside upper center", ncols=4, title=title, title_fontsize=7.5
    )
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """The numbers behind the picture; a null time to target with n > 0 is a miss of the median."""
    runs = with_costs(recorded.runs)
    return {
        "lost": len(recorded.lost),
        "cells": {
            setting: {
                scheme: _numbers(own[own["scheme"] == scheme], own) for scheme in _schemes(own)
            }
            for setting, own in runs.groupby("setting", sort=True)
        },
    }


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """Bounded costs next to nothing where chain costs, and never breaks its bound."""
    found = []
    for setting, cells in numbers["cells"].items():
        bounded = [scheme for scheme in cells if scheme.startswith(BOUNDED)]
        for scheme, cell in cells.items():
            if cell["over_none"] is not None:
                found.append(_cost(setting, scheme, cell))
        found += [_kept(setting, scheme, cells[scheme]) for scheme in bounded]
    return found


def with_costs(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with `scheme`, `setting`, the columns of MEASURES and, of a replica that is bounded,
    `exceeded` (snapshots beyond the bound) and `closeness` (largest distance over the bound)."""
    told = [_told(Path(folder)) for folder in runs["folder"]]
    settings = runs["network"] + "/" + runs["compute"]
    schemes = [NONE if pd.isna(name) else name for name in runs["replication"]]
    frame = runs.assign(setting=settings, scheme=schemes)
    frame["update_s"] = frame["elapsed_s"] / frame["updates_applied"]
    out = np.array([one["bytes_by_link"]["server"]["egress"] for one in told], dtype=float)
    frame["server_mb"] = out / frame["updates_applied"] / 1e6
    divergences = [one["divergence"] or {} for one in told]
    frame["exceeded"] = [_number(one.get("exceeded")) for one in divergences]
    tops, bounds = ([_number(one.get(key)) for one in divergences] for key in ("max", "bound"))
    frame["closeness"] = np.asarray(tops) / np.asarray(bounds)
    frame["bound"] = bounds
    return frame


def _told(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _schemes(runs: pd.DataFrame) -> list[str]:
    """None, chain, then bounds from tight to loose."""
    return sorted(set(runs["scheme"]), key=lambda name: (_PLACE[name.split()[0]], _tightness(name)))


_PLACE = {NONE: 0, CHAIN: 1, BOUNDED: 2}


def _tightness(scheme: str) -> float:
    last = scheme.split()[-1]
    return float(last) if last not in (NONE, CHAIN) else 0.0


def _in_words(setting: str) -> str:
    slowed = [name.upper() for name in setting.split("/") if name != NONE]
    return ", ".join(slowed) or "no stragglers"


def _short(scheme: str) -> str:
    return scheme.replace("bounded ", "bounded\n")


def _points(
    axis: Axes, runs: pd.DataFrame, schemes: list[str], column: str, shift: float, number: int
) -> None:
    color = [look.color for look in LOOKS.values()][number]
    marker, label = _SETTINGS[number % len(_SETTINGS)], _in_words(runs["setting"].iloc[0])
    for place, scheme in enumerate(schemes):
        values = runs.loc[runs["scheme"] == scheme, column].to_numpy(dtype=float)
        median, low, high, _ = MedianInterval().of(values)
        if not np.isfinite(median):
            continue
        at = place + shift
        axis.plot([at], [median], marker, color=color, markersize=4, label=label)
        label = "_"
        if np.isfinite(low) and np.isfinite(high):
            axis.vlines(at, low, high, color=color, linewidth=1.2)


def _distances(axis: Axes, runs: pd.DataFrame, schemes: list[str]) -> None:
    """Of one run of each bound, where links are worst: what was measured, over the bound."""
    setting = max(set(runs["setting"]), key=lambda name: (not name.startswith(NONE), name))
    shades = {0: "-", 1: (0, (5, 1.5)), 2: (0, (1.5, 1))}
    bounded = [scheme for scheme in schemes if scheme.startswith(BOUNDED)]
    for number, scheme in enumerate(bounded):
        own = runs[(runs["scheme"] == scheme) & (runs["setting"] == setting)]
        if own.empty or not own.iloc[0]["bound"] > 0:
            continue
        table = read_table(own.iloc[0], "distances.parquet")
        axis.plot(
            table["elapsed_s"],
            table["distance"] / own.iloc[0]["bound"],
            color=f"{0.15 + 0.25 * number:g}",
            linestyle=shades[number % len(shades)],
            label=scheme,
        )
    axis.axhline(1.0, color="black", linestyle=":", linewidth=1.0)
    axis.text(0, 1.0, " bound", fontsize=6.5, va="bottom")
    axis.set_ylim(0, 1.15)
    axis.set_xlabel(f"time (s), {_in_words(setting)}")
    axis.set_ylabel("distance of the models\n/ bound")
    axis.legend(fontsize=6.5)


def _numbers(runs: pd.DataFrame, setting: pd.DataFrame) -> dict[str, Any]:
    cell: dict[str, Any] = {"n": len(runs), "missed": int(np.isinf(runs["time_to_target_s"]).sum())}
    for column in MEASURES:
        median, low, high, _ = MedianInterval().of(runs[column].to_numpy(dtype=float))
        cell[column] = {"median": known(median), "ci95": interval(low, high)}
    cell["over_none"] = _over_none(runs["scheme"].iloc[0], setting)
    exceeded, closest = runs["exceeded"].sum(min_count=1), runs["closeness"].max()
    cell["exceeded"] = None if pd.isna(exceeded) else int(exceeded)
    cell["closest"] = known(closest)
    return cell


def _over_none(scheme: str, setting: pd.DataFrame) -> dict[str, Any] | None:
    """Seconds an update over those without a replica, in pairs of equal seed."""
    if scheme == NONE or NONE not in set(setting["scheme"]):
        return None
    pairs = PairedRatio(scheme, NONE, "scheme")(setting, "update_s")
    median, low, high, n = MedianInterval().of(pairs["ratio"].to_numpy(dtype=float))
    return {"ratio": known(median), "ci95": interval(low, high), "n": n}


def _cost(setting: str, scheme: str, cell: dict[str, Any]) -> Finding:
    cost = cell["over_none"]
    dear = scheme == CHAIN
    rule = "clearly more" if dear else "at most"
    holds = None
    if cost["ratio"] is not None:
        holds = (cost["ratio"] > COST) == dear
    return Finding(
        f"{setting}: {scheme}: time an update over that without a replica",
        cost["ratio"],
        f"{rule} {'than' if dear else ''} {COST:g}".replace("  ", " "),
        holds,
        ci95=cost["ci95"],
        n=cost["n"],
        reason=None if holds is not None else "no pair of runs",
    )


def _kept(setting: str, scheme: str, cell: dict[str, Any]) -> Finding:
    known_bound = cell["exceeded"] is not None
    return Finding(
        f"{setting}: {scheme}: snapshots at which the models were further apart than the bound",
        cell["exceeded"],
        "none",
        cell["exceeded"] == 0 if known_bound else None,
        n=cell["n"],
        reason=None if known_bound else "no snapshot",
    )
