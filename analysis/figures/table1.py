"""table1: speedup of MLfabric under NS × CS, the paper's values beside ours."""

from __future__ import annotations

import math
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from analysis import paper, style
from analysis.errors import AnalysisError
from analysis.load import Recorded
from analysis.numbers import repetitions
from analysis.speedups import VARIANTS, Cell, Estimate, SpeedupTable, has_targets
from analysis.table_numbers import cell_numbers, table_findings, table_numbers
from analysis.variants import PAPER_MODE, PIPELINED, look_of

REPORTED = f"paper [{paper.CITATION}]"
CAPTION = (
    "Speedup of MLfabric by time to target under network (NS) and compute (CS) stragglers, the"
    " paper's value beside ours; medians of pairs of equal seed, 95 % bootstrap intervals. Shaded"
    " cells were looked at when NS and CS settings were chosen; the others are held out."
)
findings = table_findings
# Ratios in the order in which they stand in a panel: name, variant, marker is filled, label.
SERIES = (
    ("paper_mode", PAPER_MODE, True, "paper mode / ring"),
    ("pipelined", PIPELINED, True, "pipelined / ring"),
    ("best_baseline", PIPELINED, False, "pipelined / better baseline"),
)
THROUGHPUT = "updates a second, ratio"
NOTE = (
    "NS/CS parameters inferred; paper's values are not reproduced but compared. Shaded cells:\n"
    "looked at when they were chosen; others held out. Below a cell: the better baseline.\n"
    "Medians of pairs of equal seed, {n}, 95 % bootstrap intervals; a miss is infinite."
)
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
_FITTED = "#f3efe2"


def draw(recorded: Recorded) -> Figure:
    """The picture: three rows of panels, CS1 to CS3, and three columns, NS1 to NS3."""
    runs, timed = recorded.runs, has_targets(recorded.runs)
    cells = {(cell.compute, cell.network): cell for cell in SpeedupTable()(_one(runs))}
    figure, axes = plt.subplots(3, 3, figsize=(style.COLUMN_IN, 4.5), sharex=True, sharey=True)
    for row, compute in enumerate(paper.COMPUTES):
        axes[row, 0].set_ylabel(compute)
        for column, network in enumerate(paper.NETWORKS):
            axis, cell = axes[row, column], cells.get((compute, network))
            axis.set_title(network if row == 0 else "")
            axis.set_facecolor(_FITTED if paper.fitted(compute, network) else "white")
            if cell is not None:
                _panel(axis, cell, timed)
    _scale(axes[0, 0], list(cells.values()), timed)
    for axis, cell in ((axes[_place(place)], cell) for place, cell in cells.items()):
        _limitless(axis, cell, timed)
    _texts(figure, axes[0, 0], runs, list(cells.values()), timed)
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """The numbers behind the picture; a speedup is null without a pair, or where it is infinite.

    It is infinite where the median baseline missed the target (missed_by_variant), 0 where ours
    did.
    """
    runs, lost = _one(recorded.runs), recorded.lost
    cells = SpeedupTable()(runs)
    gone = lost["compute"].str.upper() + "/" + lost["network"].str.upper()
    return {
        "workload": str(runs["workload"].iloc[0]),
        "cluster": str(runs["cluster"].iloc[0]),
        "measure": "time_to_target" if has_targets(runs) else "throughput",
        "cells": {cell.name: cell_numbers(cell, int((gone == cell.name).sum())) for cell in cells},
        **table_numbers(cells),
    }


def _one(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs; raises AnalysisError unless they share workload and cluster."""
    for axis in ("workload", "cluster"):
        names = sorted(set(runs[axis]))
        if len(names) > 1:
            raise AnalysisError(f"table1: {axis} {', '.join(names)}: one table holds one {axis}")
    return runs


def _place(place: tuple[str, str]) -> tuple[int, int]:
    return paper.COMPUTES.index(place[0]), paper.NETWORKS.index(place[1])


def _estimates(cell: Cell, timed: bool) -> list[Estimate]:
    ratios = cell.speedup if timed else cell.throughput
    return [ratios[name] for name, *_ in SERIES]


def _panel(axis: Axes, cell: Cell, timed: bool) -> None:
    axis.axhline(1.0, color="0.3", linestyle="--", linewidth=0.7, zorder=1)
    axis.plot([0], [cell.paper], label=REPORTED, **_hollow("D", "black"))
    _value(axis, 0, cell.paper, cell.paper)
    for place, (estimate, (name, variant, filled, label)) in enumerate(
        zip(_estimates(cell, timed), SERIES, strict=True), start=1
    ):
        dash = cell.throughput[name].median if timed else math.nan
        _mark(axis, place, estimate, dash, variant, filled, label)
    baseline = f"/ {look_of(cell.best_baseline).short}"
    below = axis.get_xaxis_transform()
    axis.text(len(SERIES), -0.02, baseline, transform=below, ha="center", va="top", fontsize=5)
    if timed:
        _throughputs(axis, cell)
        _misses(axis, cell)


def _throughputs(axis: Axes, cell: Cell) -> None:
    """Beside each speedup, how the updates applied a second compare."""
    ratios = [cell.throughput[name].median for name, *_ in SERIES]
    axis.plot(
        range(1, len(ratios) + 1),
        ratios,
        label=THROUGHPUT,
        marker="_",
        markersize=8,
        markeredgewidth=1.0,
        color="0.55",
        linestyle="none",
        zorder=1.2,
    )


def _misses(axis: Axes, cell: Cell) -> None:
    """Which runs missed the target, above the marks of medians that are 0."""
    missed = [
        f"{look_of(v).short} {cell.missed[v]}/{cell.runs[v]}" for v in VARIANTS if cell.missed[v]
    ]
    if missed:
        text = axis.text(
            0.03,
            0.17 if _failed(cell) else 0.03,
            "missed:\n" + "\n".join(missed),
            transform=axis.transAxes,
            va="bottom",
            fontsize=4.5,
            linespacing=0.95,
            color="0.3",
        )
        text.set_in_layout(False)


def _failed(cell: Cell) -> bool:
    """Whether ours missed the target in most pairs of a series."""
    return any(cell.speedup[name].median == 0 for name, *_ in SERIES)


def _note_share(cell: Cell) -> float:
    """Share of a panel's height that its note of misses takes, below everything else."""
    lines = sum(1 for count in cell.missed.values() if count)
    return (0.08 + 0.065 * lines if lines else 0.0) + (0.14 if _failed(cell) else 0.0)


def _mark(
    axis: Axes, place: int, estimate: Estimate, dash: float, variant: str, filled: bool, label: str
) -> None:
    """A ratio's median with its interval, its value clear of the dash for updates a second.

    A median off every scale is marked by _limitless.
    """
    look = look_of(variant)
    style_of = {"marker": look.marker, "color": look.color, "linestyle": "none", "markersize": 4.5}
    fill = style_of if filled else _hollow(look.marker, look.color)
    shown = estimate.median if 0 < estimate.median < math.inf else math.nan
    axis.plot([place], [shown], label=label, **fill)
    if math.isnan(shown):
        return
    if estimate.high == math.inf:
        _value(axis, place, shown, min(estimate.low, shown), below=True)
    else:
        clear_of = [y for y in (shown, estimate.high, dash) if math.isfinite(y)]
        _value(axis, place, shown, max(clear_of))
    if not math.isnan(estimate.low):
        low, high = max(estimate.low, 1e-9), min(estimate.high, 1e9)
        axis.vlines([place], low, high, color=look.color, linewidth=0.9, zorder=1.5)


def _hollow(marker: str, color: str) -> dict[str, Any]:
    return {
        "marker": marker,
        "color": color,
        "linestyle": "none",
        "markersize": 4.5,
        "markerfacecolor": "white",
        "markeredgewidth": 0.8,
    }


def _value(axis: Axes, place: int, value: float, at: float, below: bool = False) -> None:
    axis.annotate(
        f"{value:.2f}" if value < 10 else f"{value:.0f}",
        (place, at),
        textcoords="offset points",
        xytext=(0, -4 if below else 3.6),
        ha="center",
        va="top" if below else "bottom",
        fontsize=5,
    )


def _scale(axis: Axes, cells: list[Cell], timed: bool) -> None:
    """One logarithmic axis for all panels, with room for values above and misses below."""
    values = [1.0, *(cell.paper for cell in cells)]
    for cell in cells:
        for estimate in _estimates(cell, timed):
            values += [estimate.median, estimate.low, estimate.high]
            values += [cell.throughput[name].median for name, *_ in SERIES] if timed else []
    finite = [value for value in values if 0 < value < math.inf]
    spread = math.log(max(finite) / min(finite))
    above = 0.1 + 0.25 * spread
    share = max((_note_share(cell) for cell in cells), default=0.0) if timed else 0.0
    below = 0.1 + share / (1 - share) * (spread + above)
    axis.set_yscale("log")
    axis.set_ylim(min(finite) * math.exp(-below), max(finite) * math.exp(above))
    low, high = axis.get_ylim()
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    axis.yaxis.set_major_locator(FixedLocator(ticks))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_xlim(-0.6, len(SERIES) + 0.6)
    axis.set_xticks([])


def _limitless(axis: Axes, cell: Cell, timed: bool) -> None:
    """Medians that no axis holds, at its ends: infinite (the baseline missed) or 0 (ours did)."""
    low, high = axis.get_ylim()
    for place, estimate in enumerate(_estimates(cell, timed), start=1):
        if estimate.median == math.inf:
            _arrow(axis, place, high, "∞", SERIES[place - 1][1], "top")
        elif estimate.median == 0:
            _arrow(axis, place, low, "0", SERIES[place - 1][1], "bottom")


def _arrow(axis: Axes, place: int, at: float, text: str, variant: str, side: str) -> None:
    up = side == "top"
    color = look_of(variant).color
    axis.plot([place], [at], marker="^" if up else "v", color=color, markersize=4, clip_on=False)
    axis.annotate(
        text,
        (place, at),
        textcoords="offset points",
        xytext=(0, -4 if up else 3),
        ha="center",
        va=side,
        fontsize=6,
    )


def _texts(figure: Figure, axis: Axes, runs: pd.DataFrame, cells: list[Cell], timed: bool) -> None:
    counts = [e.n for cell in cells for e in _estimates(cell, timed)]
    fewest = min(counts, default=0)
    workload = runs["workload"].iloc[0]
    if timed:
        title = f"{workload}: speedup by time to target ({repetitions(fewest)})"
    else:
        title = f"{workload}: ratios of throughput, n = {fewest}\nno result: runs without a target"
    handles = {
        label: handle
        for panel in figure.axes
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    order = [REPORTED, *(label for *_, label in SERIES), THROUGHPUT]
    shown = [label for label in order if label in handles]
    figure.legend(
        [handles[label] for label in shown],
        shown,
        loc="outside upper center",
        ncols=2,
        title=title,
        title_fontsize=7.5,
        fontsize=6.5,
        columnspacing=1.0,
        handletextpad=0.3,
    )
    style.note(figure, NOTE.format(n=f"n = {fewest}"))
    figure.supylabel("speedup" if timed else "ratio of updates applied a second", fontsize=8)
