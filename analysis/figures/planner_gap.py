"""planner_gap: how far each heuristic is from the exact optimum, as a distribution function."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from analysis import style
from analysis.findings import bench_findings
from analysis.variants import SUMMING

WAYS = {
    "direct": "none",
    "paper": "paper",
    "paper_best_fit": "paper_best_fit",
    "refined": "refined",
    "pipelined": "pipelined",
}
"""Each heuristic, in the legend's order, and its way of summing."""
CAPTION = (
    "Distribution, over small random batches, of a heuristic's mean completion time above that"
    " of the exact optimum (integer program); below 0: better than any plan in the paper's model."
)
findings = bench_findings


def draw(results: dict[str, Any]) -> Figure:
    """The picture of results/bench/planner_gap.json."""
    proven = [record for record in results["instances"] if record["optimum_s"] is not None]
    optima = np.array([record["optimum_s"] for record in proven])
    figure, axis = plt.subplots(figsize=(style.COLUMN_IN, 2.5))
    for name, way in WAYS.items():
        means = np.array([record["mean_completion_s"][name] for record in proven])
        _line(axis, way, means / optima - 1)
    axis.axvline(0.0, color="0.3", linewidth=0.8, zorder=1)
    axis.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axis.set_ylim(0.0, 1.02)
    axis.set_xlabel("mean completion time above the exact optimum")
    axis.set_ylabel(f"share of {len(proven)} instances")
    figure.legend(loc="outside upper center", ncols=2, title="mean gap", title_fontsize=7)
    return figure


def _line(axis: Axes, way: str, gaps: np.ndarray[Any, Any]) -> None:
    mean, look = f"{gaps.mean():+.1%}".replace("-", "−"), SUMMING[way]
    label = f"{way.replace('_', ', ', 1).replace('_', ' ')}: {mean}"
    axis.ecdf(gaps, label=label, linestyle=look.dashes, color=look.color)


def summarize(results: dict[str, Any]) -> dict[str, Any]:
    """Gaps of every heuristic, how many instances were solved, and what is claimed."""
    return {key: results[key] for key in ("solved", "unsolved", "gap", "claims")}
