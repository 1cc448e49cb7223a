"""One look for every figure: sizes of a two-column paper, a color and a marker for each policy."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.figure import Figure

from analysis.errors import AnalysisError

COLUMN_IN = 3.4
PAGE_IN = 7.0
PNG_DPI = 300

# seaborn's color-blind-safe palette; the dashes tell the policies apart without color.
_COLORS = sns.color_palette("colorblind").as_hex()
POLICY_COLOR = {
    "mlfabric_a": _COLORS[0],
    "ring_allreduce": _COLORS[1],
    "async_ps": _COLORS[2],
}
POLICY_MARKER = {"mlfabric_a": "o", "ring_allreduce": "s", "async_ps": "^"}
POLICY_DASHES = {"mlfabric_a": "-", "ring_allreduce": (0, (5, 1.5)), "async_ps": (0, (1.5, 1))}

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
    """These policies in the order of every legend; raises AnalysisError for one without a style."""
    unknown = sorted(policies - set(POLICY_COLOR))
    if unknown:
        raise AnalysisError(f"no color for policy {unknown[0]!r}: give it one in analysis/style.py")
    return [policy for policy in POLICY_COLOR if policy in policies]


def save(figure: Figure, stem: Path) -> None:
    """Write <stem>.png and <stem>.pdf; the same figure gives the same bytes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(stem.with_suffix(".png"), dpi=PNG_DPI)
    figure.savefig(stem.with_suffix(".pdf"), metadata={"CreationDate": None})
