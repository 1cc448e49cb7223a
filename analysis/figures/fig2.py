"""fig2: gain from aggregating: updates applied over time, and what the server receives for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style
from analysis.cases import Case, numbers
from analysis.findings import Finding
from analysis.variants import SUMMING

PAPER = "schematic: aggregated updates are applied earlier and load the server less"
LABELS = {
    "none": "no aggregation",
    "paper": "groups as in the paper",
    "pipelined": "pipelined (ours)",
}
CAPTION = (
    "Updates applied, and bytes that the server receives for them, as the planner answers for"
    " eight equal updates. Nothing here is random."
)


def draw(cases: Mapping[str, Case]) -> Figure:
    """The picture: updates applied above, bytes received below, one line a case."""
    figure, (applied, received) = plt.subplots(2, figsize=(style.COLUMN_IN, 3.4), sharex=True)
    last_s = max(case.applied()[0][-1] for case in cases.values())
    for name, label in LABELS.items():
        case, summing = cases[name], SUMMING[name]
        look = {"color": summing.color, "linestyle": summing.dashes, "clip_on": False}
        _applied(
            applied, case, last_s, f"{label}: mean completion {case.mean_completion_s:.2f} s", look
        )
        _received(received, case, last_s, look)
    applied.set_ylabel("updates applied")
    received.set_ylabel("received by the\nserver (MB)")
    received.set_xlabel("time (s)")
    received.set_xlim(0, last_s)
    for axis in (applied, received):
        axis.set_ylim(bottom=0)
    figure.legend(loc="outside upper left", ncols=1)
    return figure


def summarize(cases: Mapping[str, Case]) -> dict[str, Any]:
    """The numbers behind the picture."""
    return {"paper": PAPER, "cells": numbers(cases.items())}


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """What the paper's schematic shows, on our input."""
    plain, summed = numbers["cells"]["none"], numbers["cells"]["paper"]
    return [
        Finding(
            f"{what}, groups as in the paper over no aggregation",
            round(summed[key] / plain[key], 4),
            "below 1",
            summed[key] < plain[key],
            said,
        )
        for what, key, said in (
            ("mean completion", "mean_completion_s", "earlier"),
            ("bytes into the server", "bytes_into_server", "fewer"),
        )
    ]


def _applied(axis: Axes, case: Case, last_s: float, label: str, look: dict[str, Any]) -> None:
    times, counts = case.applied()
    steps = ([0.0, *times, last_s], [0, *counts, counts[-1]])
    axis.plot(*steps, label=label, drawstyle="steps-post", **look)


def _received(axis: Axes, case: Case, last_s: float, look: dict[str, Any]) -> None:
    pieces = np.array(case.pieces_into_server())
    times = np.unique(np.concatenate([[0.0, last_s], pieces[:, 0], pieces[:, 1]]))
    spent = np.clip(times[:, None], pieces[:, 0], pieces[:, 1]) - pieces[:, 0]
    axis.plot(times, spent @ pieces[:, 2] / 1e6, **look)
