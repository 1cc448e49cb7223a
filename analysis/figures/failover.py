"""failover: what hosts send and the model takes in, around the moment a host is killed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis import style
from analysis.findings import Finding, ratio
from analysis.load import Recorded, read_table
from analysis.numbers import known, repetitions
from analysis.stats import MedianInterval

BEFORE_S, AFTER_S = 0.8, 1.6
RECOVERED_S = 2.0
"""A host that is killed must hold nobody up for longer [ours]."""

_COLORS = sns.color_palette("colorblind").as_hex()
_KINDS = {
    "update": _COLORS[0],
    "sum": _COLORS[4],
    "model": _COLORS[2],
    "copy": _COLORS[1],
    "chain": _COLORS[3],
}
CAPTION = (
    "Transfers that reach the server, the replica and each worker around the moment a host is"
    " killed (red line; dashed: the first update applied after that), one run each; what was cut"
    " short is hatched."
)


def draw(recorded: Recorded) -> Figure:
    """The picture: a panel for each fault and replication, a lane for each receiver."""
    runs = _with_outcome(recorded.runs)
    cells = list(runs.groupby(["fault", "scheme"], sort=False))
    figure, axes = plt.subplots(
        len(cells), 1, figsize=(style.PAGE_IN, 0.4 + 1.35 * len(cells)), sharex=True, squeeze=False
    )
    for axis, ((fault, scheme), own) in zip(axes.flat, cells, strict=True):
        _timeline(axis, own.iloc[0], f"{fault}, replication {scheme}")
    axes.flat[-1].set_xlabel("seconds from the fault")
    handles = [Patch(color=color, label=kind) for kind, color in _KINDS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """Seconds until the loss was known and until updates were applied again; updates lost."""
    runs = _with_outcome(recorded.runs)
    return {
        "lost": len(recorded.lost),
        "cells": {
            f"{fault}, replication {scheme}": {
                "n": len(own),
                "detection_s": _median(own["detection_s"]),
                "recovery_s": _median(own["recovery_s"]),
                "most_recovery_s": known(own["recovery_s"].max()),
                "lost_updates": int(own["lost_updates"].sum()),
            }
            for (fault, scheme), own in runs.groupby(["fault", "scheme"], sort=False)
        },
    }


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """A killed host costs little time and no applied update."""
    found = []
    for name, cell in numbers["cells"].items():
        seconds = ratio(cell["most_recovery_s"], cell["n"])
        found.append(
            Finding(
                f"{name}: seconds until updates are applied again ({repetitions(cell['n'])})",
                seconds,
                f"at most {RECOVERED_S:g} s",
                isinstance(seconds, float) and seconds <= RECOVERED_S,
                n=cell["n"],
            )
        )
        found.append(
            Finding(
                f"{name}: applied updates that are in no model any more",
                cell["lost_updates"],
                "none",
                cell["lost_updates"] == 0,
                n=cell["n"],
            )
        )
    return found


def _with_outcome(runs: pd.DataFrame) -> pd.DataFrame:
    told = [json.loads((Path(folder) / "run.json").read_text()) for folder in runs["folder"]]
    names = ("fault_s", "fault_host", "detection_s", "recovery_s", "lost_updates")
    frame = runs.assign(**{name: [one[name] for one in told] for name in names})
    frame["scheme"] = ["none" if pd.isna(name) else name for name in runs["replication"]]
    frame["recovery_s"] = frame["recovery_s"].astype(float).fillna(math.inf)  # it never went on
    return frame


def _median(values: pd.Series) -> float | None:
    return known(MedianInterval().of(values.to_numpy(dtype=float))[0])


def _timeline(axis: Axes, run: Any, title: str) -> None:
    trace = read_table(run, "trace.parquet")
    at_s = float(run.fault_s)
    begin, end = at_s - BEFORE_S, at_s + AFTER_S
    shown = trace[(trace["ended_s"] > begin) & (trace["started_s"] < end)]
    shown = shown[shown["kind"].isin(_KINDS)]
    lanes = _lanes(shown)
    for place, host in enumerate(lanes):
        for row in shown[shown["next_hop"] == host].itertuples():
            axis.barh(
                place,
                row.ended_s - row.started_s,
                left=row.started_s - at_s,
                height=0.7,
                color=_KINDS[str(row.kind)],
                alpha=0.75,
                linewidth=0.3,
                edgecolor="white" if row.complete else "black",
                hatch=None if row.complete else "////",
            )
    axis.axvline(0.0, color="crimson", linewidth=1.1)
    if math.isfinite(run.recovery_s):
        axis.axvline(float(run.recovery_s), color="crimson", linestyle="--", linewidth=0.9)
    names = [f"{host} ✝" if host == run.fault_host else host for host in lanes]
    axis.set_yticks(range(len(lanes)), names, fontsize=5.5)
    axis.set_ylim(len(lanes) - 0.5, -0.5)
    axis.set_xlim(-BEFORE_S, AFTER_S)
    axis.grid(visible=False, axis="y")
    lost = f", {run.lost_updates} applied updates lost" if run.lost_updates else ""
    goes_on = f"goes on after {run.recovery_s:.2f} s" if math.isfinite(run.recovery_s) else "ends"
    axis.set_title(f"{title}: {goes_on}{lost}")


def _lanes(shown: pd.DataFrame) -> list[str]:
    """Server and replica first, then workers by number."""
    hosts = set(shown["next_hop"])
    first = [host for host in ("server", "replica") if host in hosts]
    workers = sorted(hosts - set(first), key=lambda host: (len(host), host))
    return [*first, *workers]
