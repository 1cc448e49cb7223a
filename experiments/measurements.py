"""Figures of what is measured here and now, without runs: results/<profile>/measured/*.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments import compression
from experiments.files import write_json
from experiments.fingerprint import fingerprint

Measure = Callable[[Callable[[str], None]], dict[str, Any]]

MEASURED: dict[str, Measure] = {"fig9": compression.measure}


def write_measurements(figures: Sequence[str], folder: Path, tell: Callable[[str], None]) -> None:
    """Write <folder>/<figure>.json; what this very code has written already is kept."""
    for figure in figures:
        path, mark = folder / f"{figure}.json", fingerprint(json.dumps({"figure": figure}))
        if _mark_of(path) == mark:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        write_json({"fingerprint": mark, **MEASURED[figure](tell)}, path)


def _mark_of(path: Path) -> str | None:
    """The fingerprint that a measurement tells; None where there is none, or half of one."""
    try:
        found: str | None = json.loads(path.read_text()).get("fingerprint")
    except (OSError, ValueError):
        return None
    return found
