"""fig9: bytes that summing LDA's updates saves, against updates summed and against topics."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from analysis import style
from analysis.findings import Finding

WORKLOAD = "plda_sotu"  # whose updates experiments.compression measures
PAPER_RATIO = (1.0, 6.0)
PAPER_K = (0, 600)
SHOWN_TOPICS = (25, 100, 600)
SHOWN_SUMMED = (4, 8, 30)
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1)))
CAPTION = (
    "Bytes of LDA's updates over bytes of their sum, both as they cross the wire, from real"
    " updates of thirty workers. The paper's K is not explained in our sources: it is drawn"
    " against both readings."
)


def draw(measured: dict[str, Any]) -> Figure:
    """The picture: the ratio against the number of updates summed, and against the topics."""
    ratios = ratios_of(measured)
    last = ratios[ratios["sweep"] == ratios["sweep"].max()]
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.PAGE_IN, 2.4), sharey=True)
    left.set_prop_cycle(color=sns.color_palette("crest", 3), linestyle=_DASHES)
    for topics in SHOWN_TOPICS:
        own = last[last["topics"] == topics]
        left.plot(own["summed"], own["ratio"], marker="o", label=f"{topics}")
    right.set_prop_cycle(color=sns.color_palette("flare", 3), linestyle=_DASHES)
    for summed in SHOWN_SUMMED:
        own = last[last["summed"] == summed]
        right.plot(own["topics"], own["ratio"], marker="o", label=f"{summed}")
    left.set_xlabel("updates summed")
    left.set_ylabel("compression ratio\n(bytes of the parts / of their sum)")
    figure.suptitle(
        f"{WORKLOAD}, {measured['workers']} workers, updates of sweep {last['sweep'].iloc[0]}",
        fontsize=7.5,
    )
    right.set_xlabel("topics K")
    left.text(0.0, PAPER_RATIO[1], "paper's axis: 1 to 6", fontsize=6.5, color="0.4", va="bottom")
    for axis, title in ((left, "topics"), (right, "updates summed")):
        axis.axhspan(*PAPER_RATIO, color="0.95", zorder=0)
        for line in axis.get_lines():
            line.set_markersize(3.0)
        axis.legend(title=title, title_fontsize=7)
    return figure


def summarize(measured: dict[str, Any]) -> dict[str, Any]:
    """The ratios, by topics, sweep and number of updates summed; the paper's range."""
    cells: dict[str, Any] = {}
    for row in ratios_of(measured).itertuples():
        place = cells.setdefault(f"K={row.topics}", {}).setdefault(f"sweep={row.sweep}", {})
        place[str(row.summed)] = round(float(row.ratio), 4)
    return {"paper_ratio": list(PAPER_RATIO), "paper_k": list(PAPER_K), "cells": cells}


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """Whether the paper's range of ratios is met."""
    last = [list(sweeps.values())[-1] for sweeps in numbers["cells"].values()]
    ratios = [value for of_topics in last for value in of_topics.values()]
    low, high = PAPER_RATIO
    return [
        Finding(
            f"range of the ratio, K up to {PAPER_K[1]} topics, up to 30 updates summed",
            f"{min(ratios):.2f}–{max(ratios):.2f}",
            f"from {low:g} on, {high:g} reached",
            min(ratios) >= low and max(ratios) >= high,
            f"{low:g}–{high:g}",
        )
    ]


def ratios_of(measured: dict[str, Any]) -> pd.DataFrame:
    """Its rows, with `ratio`."""
    rows = pd.DataFrame(measured["rows"])
    return rows.assign(ratio=rows["parts_bytes"] / rows["sum_bytes"])
