"""One look for every figure: sizes of a two-column paper, a color and a marker a variant."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.figure import Figure

from analysis.variants import LOOKS

COLUMN_IN = 3.4
PAGE_IN = 7.0
PNG_DPI = 300

METRIC_LABEL = {
    "heldout_loglik": "held-out log-likelihood\nper token",
    "heldout_loss": "held-out loss",
    "heldout_accuracy": "held-out accuracy",
}


def apply() -> None:
    """Set the style for every figure made from now on; draws without a display."""
    mpl.use("Agg")
    sns.set_theme(context="paper", style="ticks", palette="colorblind")
    mpl.rcParams.update(
        {
            "font.size": 8,
            "axes.labelsize": 8,
            "axes.titlesize": 7.5,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "legend.fontsize": 7,
            "legend.frameon": False,
            "axes.linewidth": 0.6,
            "axes.grid": True,
            "grid.linewidth": 0.4,
            "grid.color": "0.9",
            "axes.axisbelow": True,
            "lines.linewidth": 1.2,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "pdf.fonttype": 42,  # text stays text
            "figure.constrained_layout.use": True,
        }
    )


def in_order(policies: set[str]) -> list[str]:
    """These variants in the order of every legend; those without a look of their own come last."""
    return [*(name for name in LOOKS if name in policies), *sorted(policies - set(LOOKS))]


def note(figure: Figure, text: str) -> None:
    """Small print below all panels."""
    figure.supxlabel(text, fontsize=5.3, ha="center", color="0.25")


def save(figure: Figure, stem: Path) -> None:
    """Write <stem>.png and <stem>.pdf; the same figure gives the same bytes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(stem.with_suffix(".png"), dpi=PNG_DPI)
    figure.savefig(stem.with_suffix(".pdf"), metadata={"CreationDate": None})
