"""planner_speed: planning time against the number of updates of a batch."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from analysis import style
from analysis.findings import bench_findings
from analysis.variants import SUMMING

CAPTION = (
    "Time to plan a batch, one core, medians over batches; dotted: the paper's rules in a"
    " straightforward planner, which comes to the same groups; crosses: our aims for them."
)
findings = bench_findings


def draw(measured: dict[str, Any]) -> Figure:
    """The picture: one line a way of summing."""
    figure, axis = plt.subplots(figsize=(style.COLUMN_IN, 2.5))
    for mode, times in measured["seconds"].items():
        label = f"{mode}: grows as $n^{{{measured['growth_exponent'][mode]:.2f}}}$"
        look, sizes = SUMMING[mode], [int(n) for n in times]
        axis.plot(
            sizes,
            list(times.values()),
            label=label,
            color=look.color,
            marker=look.marker,
            linestyle=look.dashes,
            markersize=3.5,
        )
    plain = {int(n): told["straightforward_s"] for n, told in measured["straightforward"].items()}
    axis.plot(list(plain), list(plain.values()), "k:", label="straightforward, as paper")
    aims = {int(n): aim for n, aim in measured["aims_s"].items()}
    paper = SUMMING["paper"].color
    axis.plot(list(aims), list(aims.values()), "x", color=paper, zorder=3, label="aim for paper")
    axis.set_xscale("log")
    axis.set_yscale("log")
    sizes = [int(n) for n in measured["seconds"]["paper"]]
    axis.xaxis.set_major_locator(FixedLocator(sizes))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticklabels([f"{n:,}" for n in sizes])
    axis.set_xlabel("updates of a batch")
    axis.set_ylabel("planning time (s)")
    figure.legend(loc="outside upper center", ncols=2, fontsize=6.5)
    return figure


def summarize(measured: dict[str, Any]) -> dict[str, Any]:
    """Seconds by mode and size, growth exponents, and what is claimed of them."""
    return {key: measured[key] for key in ("seconds", "growth_exponent", "claims")}
