"""Draw a profile's figures from what it recorded: python -m analysis.draw --profile smoke."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis import style
from analysis.cases import read_cases
from analysis.errors import AnalysisError
from analysis.figures import (
    claim_halving,
    fig1,
    fig2,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    fig9,
    fig10,
    scale,
    table1,
)
from analysis.load import COLUMNS, Recorded, load_runs, select_planned
from analysis.plan import Plan, read_plan

FROM_PLANNER = {"fig1": fig1, "fig2": fig2, "fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6}
FROM_RUNS = {
    "fig7": fig7,
    "fig8": fig8,
    "table1": table1,
    "table1_plda": table1,
    "fig10": fig10,
    "scale": scale,
    "claim_halving": claim_halving,
}
FROM_MEASUREMENTS = {"fig9": fig9}
FIGURES = [*FROM_PLANNER, *FROM_MEASUREMENTS, *FROM_RUNS]
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Drawn:
    """What became of a figure: one line on it, its entry of the summary (none without runs)."""

    line: str
    figures: dict[str, Any] = field(default_factory=dict)
    claims: list[dict[str, Any]] = field(default_factory=list)


def draw_figures(plan: Plan, names: Sequence[str], folder: Path) -> list[str]:
    """Draw figures into <folder>/figures and their numbers into <folder>/summary.json.

    Returns one line on each figure; raises AnalysisError for an unknown figure or one for which
    nothing was planned.
    """
    for name in names:
        if name not in FIGURES:
            raise AnalysisError(f"figure {name!r}: unknown; known: {', '.join(FIGURES)}")
    style.apply()
    runs = _runs(plan, [name for name in names if name in FROM_RUNS])
    summary: dict[str, Any] = {"profile": plan.profile, "git": _git(), "figures": {}, "claims": []}
    lines = []
    for name in names:
        stem = folder / "figures" / name
        if name in FROM_PLANNER:
            drawn = _draw_planned(name, folder / "plans" / f"{name}.json", stem)
        elif name in FROM_MEASUREMENTS:
            drawn = _draw_measured(name, folder / "measured" / f"{name}.json", stem)
        else:
            drawn = _draw_recorded(name, select_planned(runs, plan.cells(name)), stem)
        lines.append(drawn.line)
        summary["figures"] |= drawn.figures
        summary["claims"] += drawn.claims
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return lines


def _runs(plan: Plan, names: Sequence[str]) -> pd.DataFrame:
    """The recorded runs of these figures; without figures no store is asked."""
    wanted = {fingerprint for name in names for fingerprint in plan.cells(name)["fingerprint"]}
    if plan.tracking_uri is None or plan.tracking_experiment is None or not wanted:
        return pd.DataFrame(columns=COLUMNS)
    return load_runs(plan.tracking_uri, plan.tracking_experiment, wanted)


def _draw_planned(name: str, answers: Path, stem: Path) -> Drawn:
    """Draw a figure of the planner's answers."""
    cases = read_cases(answers)
    _save(FROM_PLANNER[name].draw(cases), stem)
    line = f"{name}: {stem}.png and .pdf, from the planner"
    return Drawn(line, {name: FROM_PLANNER[name].summarize(cases)})


def _draw_measured(name: str, path: Path, stem: Path) -> Drawn:
    """Draw a figure of what was measured apart; raises AnalysisError where that is absent."""
    if not path.exists():
        return Drawn(f"{name}: not drawn, no measurement at {path}")
    measured, module = json.loads(path.read_text()), FROM_MEASUREMENTS[name]
    _save(module.draw(measured), stem)
    return Drawn(f"{name}: {stem}.png and .pdf, measured", {name: module.summarize(measured)})


def _draw_recorded(name: str, recorded: Recorded, stem: Path) -> Drawn:
    """Draw a figure of recorded runs; nothing is drawn without any."""
    lost = recorded.lost["status"].value_counts()
    left_out = "".join(f", {count} {status}" for status, count in lost.items())
    if recorded.runs.empty:
        return Drawn(f"{name}: not drawn, no finished valid run{left_out}")
    module = FROM_RUNS[name]
    _save(module.draw(recorded), stem)
    line = f"{name}: {stem}.png and .pdf, {len(recorded.runs)} runs{left_out}"
    found = module.claims(recorded) if hasattr(module, "claims") else []
    claims = [{**claim, "figure": name} for claim in found]
    return Drawn(line, {name: module.summarize(recorded)}, claims)


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
