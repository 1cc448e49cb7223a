"""The runs of any sweep: convergence against time, a panel a setting, a line a variant."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis import style
from analysis.comparison import SETTING
from analysis.figures.fig7 import add_legend, add_panel, metric_label

MOST_PANELS = 12
_COLUMNS = 3


def draw(runs: pd.DataFrame) -> Figure:
    """The picture of the first panels; runs as analysis.comparison.with_labels gives them."""
    settings = list(dict.fromkeys(runs[SETTING]))[:MOST_PANELS]
    columns = min(len(settings), _COLUMNS)
    rows = -(-len(settings) // columns)
    width = style.PAGE_IN if columns > 1 else style.COLUMN_IN
    figure, axes = plt.subplots(rows, columns, figsize=(width, 1.95 * rows + 0.45), squeeze=False)
    for axis, setting in zip(axes.flat, settings, strict=False):
        here = runs[runs[SETTING] == setting]
        add_panel(axis, here, setting or str(here["workload"].iloc[0]))
        axis.set_ylabel(metric_label(here))
        axis.set_xlabel("time (s)")
    for axis in axes.flat[len(settings) :]:
        axis.remove()
    add_legend(figure, list(axes.flat[: len(settings)]))
    return figure
