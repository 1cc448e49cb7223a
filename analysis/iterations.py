"""Iterations that runs needed to reach their target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.load import read_table

_SAME_TIME_S = 1e-9


def with_iterations(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with a column iterations: updates applied until the target was reached.

    It is the version of the snapshot that run.json's time_to_target_s names; infinite where the
    target was missed, NaN where there was none.
    """
    return runs.assign(iterations=[_iterations(run) for run in runs.itertuples()])


def _iterations(run: Any) -> float:
    if not np.isfinite(run.time_to_target_s):
        return float(run.time_to_target_s)
    metrics = read_table(run, "metrics.parquet")
    reached = metrics[metrics["elapsed_s"] >= run.time_to_target_s - _SAME_TIME_S]
    return float(reached["version"].min())
