"""One run of a benchmark that compares runs, and what is compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.run import main as run


def measured(folder: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Carry out a run in `folder`, which is emptied before; ends the benchmark where it fails."""
    shutil.rmtree(folder, ignore_errors=True)
    where = [f"hydra.run.dir={folder}", f"tracking.uri=sqlite:///{folder.parent}/mlflow.db"]
    status = run([*overrides, *where])
    found = json.loads((folder / "run.json").read_text())
    if found["updates_applied"] is None:
        raise SystemExit(status)
    return {
        "valid": status == 0,
        "updates_per_s": found["updates_applied"] / found["elapsed_s"],
        "mean_delay": found["delay"]["mean"],
        "updates_dropped": found["updates_dropped"],
    }
