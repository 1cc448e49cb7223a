"""Comparisons in MLflow: a run over others, with their speedups, figures and report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from analysis import style
from analysis.comparison import Ratio, as_rows, compare, told, with_labels
from analysis.errors import AnalysisError
from analysis.figures import sweep
from analysis.load import load_folder
from experiments.errors import RunFailed
from experiments.files import write_json
from experiments.sections import TrackingConfig
from experiments.tracking import Comparison, record_comparison

_KEY = re.compile(r"[^\w\-. :/]")


def compare_sweep(tracking: TrackingConfig, folder: Path, baseline: str) -> list[str]:
    """Record a sweep's comparison and write comparison.json and convergence.* into its folder.

    Returns lines that tell how its runs compare; raises RunFailed where the store fails.
    """
    try:
        runs = load_folder(tracking.store, tracking.experiment, folder)
    except AnalysisError as error:
        raise RunFailed(str(error)) from error
    finished = runs[runs["status"] == "finished"].reset_index(drop=True)
    if finished.empty:
        return []
    labelled = with_labels(finished)
    ratios = compare(labelled, baseline)
    write_json({"runs": len(runs), "ratios": as_rows(ratios)}, folder / "comparison.json")
    trained = labelled[labelled["final_metric"].notna()]
    if len(trained):
        style.apply()
        figure = sweep.draw(trained)
        style.save(figure, folder / "convergence")
        plt.close(figure)
    files = [folder / name for name in ("comparison.json", "convergence.png", "convergence.pdf")]
    policies = ", ".join(style.in_order(set(labelled["policy"])))
    made = Comparison(
        f"sweep {folder}",
        f"{len(runs)} runs: {policies}",
        {_metric(ratio): ratio.median for ratio in ratios},
        {"": [file for file in files if file.exists()]},
        list(runs["run_id"]),
    )
    run_id = record_comparison(tracking, made)
    return [*map(told, ratios), f"comparison: MLflow run {run_id}; {folder / 'comparison.json'}"]


def record_reproduction(tracking: TrackingConfig, folder: Path) -> str:
    """Record what <folder>/summary.json says, the figures and the report; returns the run's id.

    There is one such run a profile: it is written anew. Raises RunFailed where the store fails.
    """
    summary = json.loads((folder / "summary.json").read_text())
    runs = [run["run_id"] for told in summary["runs"].values() for run in told["drawn"]]
    profile = summary["profile"]
    made = Comparison(
        f"reproduction {profile}",
        f"figures of profile {profile}",
        flat_numbers(summary["figures"]),
        {
            "": [folder / name for name in ("report.html", "summary.json")],
            "figures": sorted((folder / "figures").glob("*.p*")),
        },
        list(dict.fromkeys(runs)),
    )
    return record_comparison(tracking, made)


def flat_numbers(figures: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number of summary.json's figures by its path in it, such as table1/cells/CS1/NS1/n."""
    flat: dict[str, float] = {}
    for key, value in figures.items():
        path = _KEY.sub(" ", f"{prefix}{key}")
        if isinstance(value, Mapping):
            flat |= flat_numbers(value, f"{path}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            flat[path] = float(value)
        elif key.endswith("ci95") and value is not None:
            ends = zip(("low", "high"), value, strict=True)
            flat |= {f"{path}/{name}": end for name, end in ends if end is not None}
    return flat


def _metric(ratio: Ratio) -> str:
    kind = {"time_to_target": "speedup", "updates_per_s": "throughput"}[ratio.measure]
    place = [kind, f"over {ratio.baseline}", ratio.variant, ratio.setting]
    return _KEY.sub(" ", "/".join(filter(None, place)))
