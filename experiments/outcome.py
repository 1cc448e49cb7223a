"""How a run ended, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Status = Literal["finished", "invalid", "failed", "interrupted"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, in one line; `details` are further lines, such as a rank's traceback."""

    status: Status
    line: str
    run_dir: Path
    details: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.line} ({self.run_dir})"


def result_line(summary: Mapping[str, Any]) -> str:
    """What a run that ended came to."""
    reached = summary["time_to_target_s"]
    target = "" if summary["target"] is None else f", target {summary['target']:g} "
    if target:
        target += "missed" if reached is None else f"reached after {reached:.1f} s"
    counts = (
        f"{summary['updates_applied']} updates applied, {summary['updates_dropped']} dropped"
        f" in {summary['elapsed_s']:.1f} s"
    )
    if summary["timing_only"]:
        return f"{counts}, nothing trained"
    final = "not finite" if summary["final_metric"] is None else f"{summary['final_metric']:.4g}"
    return f"{counts}, {summary['metric_name']} {final}{target}"


def sweep_summary(jobs: Sequence[tuple[str, Outcome]], planned: int) -> str:
    """Which jobs of a sweep did not end with a valid result, and why."""
    bad = [(job, outcome) for job, outcome in jobs if outcome.status != "finished"]
    lines = [f"{len(jobs) - len(bad)} of {planned} runs finished"]
    if len(jobs) < planned:
        lines[0] += f", {planned - len(jobs)} not started"
    return "\n".join([*lines, *(f"  {job}: {outcome}" for job, outcome in bad)])
