"""results/<profile>/report.html: what was claimed, what was measured, how, and on what machine.

One file without anything outside it: pictures are in it, links lead to MLflow's pages alone.
"""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from analysis.catalog import FIGURES, TITLES
from analysis.style import PNG_DPI

TEMPLATES = Path(__file__).resolve().parent / "templates"
LOCAL_UI = "http://127.0.0.1:5000"
"""Where `make mlflow-ui` shows a store that is a file."""

SHOWN_PX_AN_INCH = 130
"""So that letters of 8 points are as large as the text."""

MOST_COMPARED = 100
"""Runs that one address of MLflow's comparison holds."""


def write_report(folder: Path) -> Path:
    """Write <folder>/report.html from <folder>/summary.json and the pictures beside it."""
    summary = json.loads((folder / "summary.json").read_text())
    text = template("report.html.j2").render(
        summary=summary,
        sections=[_section(name, summary, folder) for name in TITLES if name in summary["runs"]],
        counts=counts(summary["claims"]),
    )
    path = folder / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


def template(name: str) -> Template:
    """A template of ours, with `value` and `interval` as filters."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"value": shown, "interval": interval_shown}
    return environment.get_template(name)


def shown(value: float | str | None) -> str:
    """A number with three digits, a text as it is, a dash where there is nothing."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value == 0 or (math.isfinite(value) and abs(value) >= 1000):
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}" if digits <= 6 else f"{value:.2g}"


def interval_shown(ends: list[float | None] | None) -> str:
    """[low, high], an unknown end as infinite."""
    if ends is None:
        return "–"
    return f"[{', '.join('∞' if end is None else shown(end) for end in ends)}]"


def _section(name: str, summary: dict[str, Any], folder: Path) -> dict[str, Any]:
    runs = summary["runs"][name]
    picture = folder / "figures" / f"{name}.png"
    drawn = name in summary["figures"] and picture.exists()
    return {
        "name": name,
        "title": TITLES[name],
        "caption": FIGURES[name].CAPTION,
        "picture": _embedded(picture) if drawn else None,
        "width_px": round(_width_in(picture) * SHOWN_PX_AN_INCH) if drawn else None,
        "claims": [claim for claim in summary["claims"] if claim["figure"] == name],
        "command": f"make reproduce-figures PROFILE={summary['profile']} FIGURES={name}",
        "runs": [{**run, "href": _run_page(run, summary["tracking_uri"])} for run in runs["drawn"]],
        "lost": runs["lost"],
        "why": runs["why"],
        "comparison": _comparison(runs["drawn"], summary["tracking_uri"]),
    }


def _embedded(picture: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def _width_in(picture: Path) -> float:
    """Width of a PNG in inches of paper, from its header."""
    header = picture.read_bytes()[:24]
    return int.from_bytes(header[16:20], "big") / PNG_DPI


def _ui(tracking_uri: str | None) -> str:
    remote = tracking_uri is not None and tracking_uri.startswith("http")
    return str(tracking_uri).rstrip("/") if remote else LOCAL_UI


def _run_page(run: dict[str, str], tracking_uri: str | None) -> str:
    page = f"#/experiments/{run['experiment_id']}/runs/{run['run_id']}"
    return f"{_ui(tracking_uri)}/{page}?workflowType=machine_learning"


def _comparison(runs: list[dict[str, str]], tracking_uri: str | None) -> str | None:
    """The address of MLflow's comparison of these runs; None without two, or for too many."""
    if not 2 <= len(runs) <= MOST_COMPARED:
        return None
    ids = json.dumps([run["run_id"] for run in runs], separators=(",", ":"))
    experiments = json.dumps(sorted({run["experiment_id"] for run in runs}), separators=(",", ":"))
    query = f"runs={quote(ids)}&experiments={quote(experiments)}"
    return f"{_ui(tracking_uri)}/#/compare-runs?{query}"


def counts(claims: list[dict[str, Any]]) -> dict[str, int]:
    """How many statements hold, do not, or are open."""
    words = {True: "hold", False: "do not hold", None: "open"}
    return {word: sum(claim["holds"] is holds for claim in claims) for holds, word in words.items()}
