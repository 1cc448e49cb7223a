"""fig1: transfers and model updates under fair sharing, reordering at the server, time-sharing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from analysis import style
from analysis.cases import Case, numbers
from analysis.findings import Finding
from mlfabric.plan import gantt

PAPER = "schematic: time-sharing lets no transfer end later than fair sharing, and most earlier"
TITLES = {
    "fair": "fair sharing",
    "reordered": "fair sharing, reordered at the server",
    "time_shared": "time-shared in the network",
}
CAPTION = (
    "Transfers and model updates of one batch, as the planner answers: links shared fairly,"
    " updates reordered at the server, transfers time-shared in the network. Nothing here is"
    " random."
)


def draw(cases: Mapping[str, Case]) -> Figure:
    """The picture: one panel a case, an update has the same color in all."""
    figure, axes = plt.subplots(len(TITLES), figsize=(style.COLUMN_IN, 4.0), sharex=True)
    for axis, (name, title) in zip(axes, TITLES.items(), strict=True):
        case = cases[name]
        ids = [update["id"] for update in case.problem["updates"]]
        bottleneck = [(case.problem["server"], "ingress")]
        colors = dict(zip(ids, gantt.COLORS, strict=False))
        gantt.draw(axis, case.problem, case.answer, bottleneck, colors)
        delay = f"longest delay {max(case.delays().values())}"
        mean = f"mean completion {case.mean_completion_s:.2f} s"
        axis.set_title(f"{title}\n{mean}, {delay}", loc="left")
        axis.label_outer()
    return figure


def summarize(cases: Mapping[str, Case]) -> dict[str, Any]:
    """The numbers behind the picture."""
    return {"paper": PAPER, "cells": numbers(cases.items())}


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """What the paper's schematic shows, on our input."""
    means = {name: cell["mean_completion_s"] for name, cell in numbers["cells"].items()}
    gain = means["time_shared"] / means["fair"]
    return [
        Finding(
            "mean completion, time-shared over fair sharing",
            round(gain, 4),
            "below 1",
            gain < 1,
            "most end earlier, none later",
        )
    ]
