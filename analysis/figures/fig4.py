"""fig4: residual bandwidth of a path's links before and after a reservation, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.cases import Case
from analysis.findings import Finding
from mlfabric.plan import gantt

PAPER_END_S = 7.0
CASE = "reservation"
SHOWN_S = 9.0
Steps = list[list[float]]
CAPTION = (
    "Residual bandwidth of the links of a path before and after a reservation of 30 MB, as the"
    " planner answers. The profile is ours, chosen so that the transfer ends when the paper's"
    " does."
)


def draw(cases: Mapping[str, Case]) -> Figure:
    """The picture: a row for each link of the path, before and after."""
    case = cases[CASE]
    worker, server = case.problem["updates"][0]["worker"], case.problem["server"]
    figure, axes = plt.subplots(
        2, 2, figsize=(style.COLUMN_IN, 2.9), sharex=True, sharey=True, squeeze=False
    )
    for row, (host, way) in enumerate(((worker, "egress"), (server, "ingress"))):
        before = case.problem["links"][host][way]
        after = residual(before, _pieces(case))
        _profile(axes[row, 0], before)
        _reserved(axes[row, 0], before, after)
        _profile(axes[row, 1], after)
        axes[row, 0].set_ylabel(f"{host} {way}\nfree (MB/s)")
    for column, title in enumerate(("before, reserved shaded", "after")):
        axes[0, column].set_title(title, loc="left")
        axes[-1, column].set_xlabel("time (s)")
    axes[0, 0].set_xlim(0, SHOWN_S)
    axes[0, 0].set_xticks([0, 1, 3, 5, 7, 9])
    axes[0, 0].set_ylim(0, 11.5)
    for axis in axes.flat:
        _end(axis, end_s(case))
    megabytes = case.problem["updates"][0]["bytes"] / 1e6
    end = f"$t_{{end}}$ = {end_s(case):g} s (▲ paper: {PAPER_END_S:g} s)"
    figure.suptitle(f"{megabytes:g} MB: {end}", fontsize=8)
    return figure


def summarize(cases: Mapping[str, Case]) -> dict[str, Any]:
    """The numbers behind the picture."""
    case = cases[CASE]
    moved = sum((end - start) * rate for start, end, rate in _pieces(case))
    return {"t_end_s": {"paper": PAPER_END_S, "ours": round(end_s(case), 6)}, "bytes": round(moved)}


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """The paper's end, on a profile of ours."""
    told = numbers["t_end_s"]
    same = abs(told["ours"] - told["paper"]) < 1e-9
    return [Finding("t_end (s)", told["ours"], "equal", same, told["paper"])]


def end_s(case: Case) -> float:
    """When the last byte arrives."""
    return float(_pieces(case)[-1][1])


def residual(profile: Steps, pieces: Steps) -> Steps:
    """What a link has left of its [from when, bytes/s] beside these [start, end, bytes/s]."""
    times = sorted({*(time for time, _ in profile), *(t for piece in pieces for t in piece[:2])})
    return [[time, _rate(profile, time) - _taken(pieces, time)] for time in times]


def _rate(profile: Steps, time: float) -> float:
    return [rate for start, rate in profile if start <= time][-1]


def _taken(pieces: Steps, time: float) -> float:
    return sum(rate for start, end, rate in pieces if start <= time < end)


def _pieces(case: Case) -> Steps:
    (transfer,) = case.answer["transfers"]
    pieces: Steps = transfer["pieces"]
    return pieces


def _profile(axis: Axes, profile: Steps) -> None:
    times, rates = np.array([*profile, [SHOWN_S, profile[-1][1]]]).T
    axis.plot(times, rates / 1e6, drawstyle="steps-post", color="black", clip_on=False)


def _reserved(axis: Axes, before: Steps, after: Steps) -> None:
    times = [time for time, _ in after]
    high = [_rate(before, time) / 1e6 for time in times]
    low = [rate / 1e6 for _, rate in after]
    axis.fill_between(times, low, high, step="post", color=gantt.COLORS[0], alpha=0.35, lw=0)


def _end(axis: Axes, time: float) -> None:
    """Our end as a line, the paper's as a mark on the time axis."""
    axis.axvline(time, color=gantt.COLORS[0], linestyle="--", linewidth=0.8)
    axis.plot([PAPER_END_S], [0], marker="^", color=gantt.COLORS[6], markersize=5, clip_on=False)
