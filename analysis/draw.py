"""Draw a profile's figures from what it recorded: python -m analysis.draw --profile smoke."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis import style
from analysis.cases import read_cases
from analysis.catalog import FIGURES, FROM_MEASUREMENTS, FROM_PLANNER, FROM_RUNS
from analysis.errors import AnalysisError
from analysis.findings import Finding
from analysis.load import COLUMNS, Recorded, load_runs, select_planned
from analysis.plan import Plan, read_plan
from analysis.report import counts, write_report

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Drawn:
    """What became of a figure: one line, its numbers (None where it is not drawn), its runs."""

    line: str
    numbers: dict[str, Any] | None = None
    findings: list[Finding] = field(default_factory=list)
    runs: list[dict[str, str]] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    why: str | None = None


def draw_figures(plan: Plan, names: Sequence[str], folder: Path) -> list[str]:
    """Draw figures into <folder>/figures, their numbers into <folder>/summary.json, and the report.

    Returns one line on each figure; raises AnalysisError for an unknown figure or one for which
    nothing was planned.
    """
    for name in names:
        if name not in FIGURES:
            raise AnalysisError(f"figure {name!r}: unknown; known: {', '.join(FIGURES)}")
    style.apply()
    runs = _runs(plan, [name for name in names if name in FROM_RUNS])
    drawn = {name: _draw(name, plan, runs, folder) for name in names}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "summary.json"
    summary = _beside(_summary(plan, drawn), path)
    path.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
    report, told = write_report(folder), counts(summary["claims"])
    held = f"{len(summary['claims'])} statements, " + ", ".join(
        f"{number} {word}" for word, number in told.items()
    )
    return [*(one.line for one in drawn.values()), f"report: {report}: {held}"]


def _summary(plan: Plan, drawn: dict[str, Drawn]) -> dict[str, Any]:
    """The content of summary.json."""
    return {
        "profile": plan.profile,
        "git": _git(),
        "machine": plan.machine,
        "tracking_uri": plan.tracking_uri,
        "figures": {name: one.numbers for name, one in drawn.items() if one.numbers is not None},
        "claims": [found.entry(name) for name, one in drawn.items() for found in one.findings],
        "runs": {
            name: {"drawn": one.runs, "lost": one.lost, "why": one.why}
            for name, one in drawn.items()
        },
    }


def _beside(summary: dict[str, Any], path: Path) -> dict[str, Any]:
    """The summary, with what an earlier one of the same code and machine says of other figures."""
    try:
        earlier = json.loads(path.read_text())
        same = all(earlier[key] == summary[key] for key in ("profile", "git", "machine"))
    except (OSError, ValueError, KeyError):
        return summary
    if not same or summary["git"]["dirty"] is not False:
        return summary
    kept = {name for name in earlier["runs"] if name not in summary["runs"]}
    return summary | {
        **{
            part: {name: v for name, v in earlier[part].items() if name in kept} | summary[part]
            for part in ("figures", "runs")
        },
        "claims": [c for c in earlier["claims"] if c["figure"] in kept] + summary["claims"],
        "tracking_uri": summary["tracking_uri"] or earlier["tracking_uri"],
    }


def _runs(plan: Plan, names: Sequence[str]) -> pd.DataFrame:
    """The recorded runs of these figures; without figures no store is asked."""
    wanted = {fingerprint for name in names for fingerprint in plan.cells(name)["fingerprint"]}
    if plan.tracking_uri is None or plan.tracking_experiment is None or not wanted:
        return pd.DataFrame(columns=COLUMNS)
    return load_runs(plan.tracking_uri, plan.tracking_experiment, wanted)


def _draw(name: str, plan: Plan, runs: pd.DataFrame, folder: Path) -> Drawn:
    stem = folder / "figures" / name
    if name in FROM_PLANNER:
        cases = read_cases(folder / "plans" / f"{name}.json")
        return _drawn(name, cases, stem, "from the planner")
    if name in FROM_MEASUREMENTS:
        path = folder / "measured" / f"{name}.json"
        if not path.exists():
            return _not_drawn(name, stem, f"no measurement at {path}")
        return _drawn(name, json.loads(path.read_text()), stem, "measured")
    return _draw_recorded(name, select_planned(runs, plan.cells(name)), stem)


def _draw_recorded(name: str, recorded: Recorded, stem: Path) -> Drawn:
    """Draw a figure of recorded runs; nothing is drawn without any."""
    lost = {str(status): int(n) for status, n in recorded.lost["status"].value_counts().items()}
    words = {"absent": "not run yet"}
    left_out = "".join(f", {count} {words.get(status, status)}" for status, count in lost.items())
    if recorded.runs.empty:
        return replace(_not_drawn(name, stem, f"no finished valid run{left_out}"), lost=lost)
    drawn = _drawn(name, recorded, stem, f"{len(recorded.runs)} runs{left_out}")
    return replace(drawn, runs=_told(recorded.runs), lost=lost)


def _told(runs: pd.DataFrame) -> list[dict[str, str]]:
    """What the report says of each run."""
    return [
        {
            "run_id": run.run_id,
            "experiment_id": run.experiment_id,
            "label": f"{run.workload} {run.variant} {run.cluster}"
            f" {run.network}/{run.compute} seed {run.seed}",
        }
        for run in runs.itertuples()
    ]


def _drawn(name: str, content: Any, stem: Path, source: str) -> Drawn:
    module = FIGURES[name]
    _save(module.draw(content), stem)
    numbers = module.summarize(content)
    line = f"{name}: {stem}.png and .pdf, {source}"
    return Drawn(line, numbers, module.findings(numbers))


def _not_drawn(name: str, stem: Path, why: str) -> Drawn:
    """An older picture goes: it would be taken for this one."""
    for suffix in (".png", ".pdf"):
        stem.with_suffix(suffix).unlink(missing_ok=True)
    return Drawn(f"{name}: not drawn, {why}", why=why)


def _save(figure: Figure, stem: Path) -> None:
    style.save(figure, stem)
    plt.close(figure)


def _git() -> dict[str, Any]:
    """Revision of the project and whether it has changes; nulls where git does not know it."""
    try:
        revision = _git_says("rev-parse", "HEAD")
        return {"revision": revision, "dirty": bool(_git_says("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {"revision": None, "dirty": None}


def _git_says(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _there(plan: Plan, folder: Path) -> list[str]:
    """The figures that were planned, those of the planner first."""
    answered = [name for name in FROM_PLANNER if (folder / "plans" / f"{name}.json").exists()]
    measured = [n for n in FROM_MEASUREMENTS if (folder / "measured" / f"{n}.json").exists()]
    return [*answered, *measured, *(name for name in FROM_RUNS if name in plan.figures)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status: 1 when a figure could not be drawn."""
    parser = argparse.ArgumentParser(prog="python -m analysis.draw", description=__doc__)
    parser.add_argument("--profile", default="laptop", help="whose results: smoke or laptop")
    parser.add_argument("--plan", type=Path, help="default: results/<profile>/plan.json")
    parser.add_argument("--figures", help="such as fig7,table1; default: all that there is")
    chosen = parser.parse_args(arguments)
    path = chosen.plan or ROOT / "results" / chosen.profile / "plan.json"
    try:
        plan = read_plan(path)
        names = chosen.figures.split(",") if chosen.figures else _there(plan, path.parent)
        lines = draw_figures(plan, names, path.parent)
    except AnalysisError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 1 if any("not drawn" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
