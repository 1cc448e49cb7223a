"""performance_profile: in how many runs a policy is within a factor of the fastest one."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter, StrMethodFormatter

from analysis import style
from analysis.findings import Finding
from analysis.load import Recorded
from analysis.numbers import repetitions
from analysis.stats import PerformanceProfile
from analysis.variants import BASELINES, PAPER_MODE, PIPELINED, look_of

CAPTION = (
    "Performance profiles over all settings: share of the runs, of every setting and seed, in"
    " which a policy reaches the target within a factor of the fastest one's time. A run that"
    " misses its target, or has no valid result, never counts as reaching it."
)
PROBLEM = ["workload", "cluster", "network", "compute", "seed"]
FACTORS = (1.0, 1.5, 2.0, 4.0)
_TICKS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def draw(recorded: Recorded) -> Figure:
    """The picture: one line a policy, from the share in which it is the fastest."""
    ratios = _ratios(recorded)
    finite = ratios.to_numpy()[np.isfinite(ratios.to_numpy())]
    most = 1.05 * max(2.0, finite.max(initial=1.0))
    figure, axis = plt.subplots(figsize=(style.COLUMN_IN, 2.5))
    for variant in style.in_order(set(ratios.columns)):
        look, shares = look_of(variant), PerformanceProfile.shares(ratios[variant])
        axis.step(
            [*shares.index, most],
            [*shares, shares.iloc[-1]],
            where="post",
            color=look.color,
            linestyle=look.dashes,
            label=variant,
        )
    axis.set_xscale("log")
    axis.set_xlim(1.0, most)
    axis.xaxis.set_major_locator(FixedLocator([tick for tick in _TICKS if tick <= most]))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(PercentFormatter(1.0))
    axis.set_ylim(0, 1.02)
    axis.set_xlabel("time to target over the fastest policy's")
    axis.set_ylabel(f"share of {len(ratios)} runs")
    axis.set_title(f"{_settings(ratios)} settings ({repetitions(_seeds(ratios))} each)", loc="left")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def summarize(recorded: Recorded) -> dict[str, Any]:
    """Shares of the runs within some factors of the fastest; `n` repetitions a setting."""
    ratios = _ratios(recorded)
    return {
        "settings": _settings(ratios),
        "n": _seeds(ratios),
        "runs": len(ratios),
        "cells": {
            variant: {
                f"{factor:g}": round(float((ratios[variant] <= factor).mean()), 4)
                for factor in FACTORS
            }
            for variant in style.in_order(set(ratios.columns))
        },
    }


def findings(numbers: dict[str, Any]) -> list[Finding]:
    """Whether MLfabric's modes are the fastest more often than any baseline."""
    fastest = {variant: shares["1"] for variant, shares in numbers["cells"].items()}
    rivals = {name: fastest[name] for name in BASELINES if name in fastest}
    best = max(rivals, key=lambda name: rivals[name], default=None)
    return [
        Finding(
            f"share of runs in which {ours} is the fastest of all, against {best}'s",
            f"{fastest[ours]:.0%} against {rivals[best]:.0%}",
            "more often",
            fastest[ours] > rivals[best],
            n=numbers["n"],
        )
        for ours in (PAPER_MODE, PIPELINED)
        if ours in fastest and best is not None
    ]


def _ratios(recorded: Recorded) -> pd.DataFrame:
    return PerformanceProfile(tuple(PROBLEM))(recorded.runs, recorded.lost)


def _settings(ratios: pd.DataFrame) -> int:
    return len(ratios.reset_index()[PROBLEM[:-1]].drop_duplicates())


def _seeds(ratios: pd.DataFrame) -> int:
    """Repetitions of the setting with the fewest."""
    counts = ratios.reset_index().groupby(PROBLEM[:-1])["seed"].count()
    return int(counts.min()) if len(counts) else 0
