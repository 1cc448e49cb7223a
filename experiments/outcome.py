"""How a run ended, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Status = Literal["finished", "invalid", "failed", "interrupted", "running"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, in one line; `details` are further lines, such as a rank's traceback."""

    status: Status
    line: str
    run_dir: Path
    details: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.line} ({self.run_dir})"


def outcomes_in(sweep_dir: Path) -> list[tuple[str, Outcome]]:
    """Overrides and outcome of every job of a sweep that was begun, in order, from their folders.

    One that has left no run.json is "running": still, or its process is gone.
    """
    given = sorted(sweep_dir.rglob(".hydra/overrides.yaml"), key=_place)
    begun = [path for path in given if (path.parent.parent / "config.json").exists()]
    return [(_overrides(path), outcome_of(path.parent.parent)) for path in begun]


def _place(path: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", str(path))]


def _overrides(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return " ".join(line.removeprefix("- ").strip("'") for line in lines if line != "[]")


def outcome_of(run_dir: Path) -> Outcome:
    """How the run in this folder ended; "running" where it has left no run.json."""
    try:
        summary = json.loads((run_dir / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Outcome("running", "left no run.json", run_dir)
    line = summary["reason"] or result_line(summary)
    return Outcome(summary["status"], line, run_dir)


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
    counts += _fault_line(summary)
    if summary["timing_only"]:
        return f"{counts}, nothing trained"
    final = "not finite" if summary["final_metric"] is None else f"{summary['final_metric']:.4g}"
    return f"{counts}, {summary['metric_name']} {final}{target}"


def _fault_line(summary: Mapping[str, Any]) -> str:
    """What was done to a host, and what came of it; "" where nothing was."""
    if summary.get("fault_s") is None:
        return ""
    told = f"; {summary['fault']} of {summary['fault_host']} at {summary['fault_s']:.1f} s"
    if summary["recovery_s"] is None:
        return told
    lost = summary["lost_updates"]
    return f"{told}, went on after {summary['recovery_s']:.2f} s, {lost} applied updates lost"


def sweep_summary(jobs: Sequence[tuple[str, Outcome]], planned: int) -> str:
    """Which jobs of a sweep did not end with a valid result, and why."""
    bad = [(job, outcome) for job, outcome in jobs if outcome.status != "finished"]
    lines = [f"{len(jobs) - len(bad)} of {planned} runs finished"]
    if len(jobs) < planned:
        lines[0] += f", {planned - len(jobs)} not started"
    return "\n".join([*lines, *(f"  {job}: {outcome}" for job, outcome in bad)])
