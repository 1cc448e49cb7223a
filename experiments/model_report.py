"""What a person reads about the last model of a run, such as the words of its topics."""

from __future__ import annotations

from pathlib import Path

from workloads.base import Evaluator, Vector

FOLDER = "report"
"""In the run's folder; it is there where there is something to read."""


def write_report(evaluator: Evaluator, model: Vector, run_dir: Path) -> None:
    """Write what there is to read about the last model of a run."""
    texts = evaluator.report(model)
    for name, text in texts.items():
        path = run_dir / FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
