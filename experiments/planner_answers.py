"""Ask the planner what the paper's fig1 to fig6 show: conf/plan/*.yaml -> results/*/plans/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from experiments.files import write_json
from experiments.overrides import choices
from experiments.paths import CONF
from mlfabric.errors import SettingError
from mlfabric.plan import answer


def planner_figures() -> list[str]:
    """Figures that show what the planner answers; they need no runs."""
    return choices("plan")


def write_answers(figures: Sequence[str], folder: Path) -> None:
    """Write <folder>/<figure>.json, each case of the figure with its problem and its answer.

    Raises SettingError, in one line, for a case that the planner refuses.
    """
    for figure in figures:
        folder.mkdir(parents=True, exist_ok=True)
        write_json({"cases": answered(figure)}, folder / f"{figure}.json")


def answered(figure: str) -> dict[str, dict[str, Any]]:
    """The cases of conf/plan/<figure>.yaml, each as {"problem": …, "answer": …}."""
    content: Any = OmegaConf.to_container(OmegaConf.load(CONF / "plan" / f"{figure}.yaml"))
    return {
        case: {"problem": problem, "answer": _ask(f"plan {figure}: cases.{case}", problem)}
        for case, problem in content["cases"].items()
    }


def _ask(where: str, problem: dict[str, Any]) -> dict[str, Any]:
    try:
        return answer(problem)
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from None
