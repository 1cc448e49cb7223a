"""docs/laptop.md, and table1 of docs/results.md, from a profile's results.

python -m analysis.page --profile laptop

What the page is made of is kept beside it, so that it can be made again: docs/measurements/*.json
and docs/figures/*.png.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.catalog import FIGURES, TITLES
from analysis.report import template

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RESULTS_PROFILE = "laptop"
"""Whose table1 stands in docs/results.md."""
_MARKS = ("<!-- table1: by python -m analysis.page -->", "<!-- end of table1 -->")
_LOCAL = ("runs", "tracking_uri")
"""What of a summary belongs to the machine that made it."""


def keep(results: Path, docs: Path = DOCS) -> Path:
    """Copy a profile's summary and pictures into the docs; returns where the summary is kept."""
    summary = json.loads((results / "summary.json").read_text())
    for name in summary["figures"]:
        shutil.copy(results / "figures" / f"{name}.png", docs / "figures" / f"{name}.png")
    kept = {key: value for key, value in summary.items() if key not in _LOCAL}
    kept["lost"] = {name: told["lost"] for name, told in summary["runs"].items() if told["lost"]}
    path = docs / "measurements" / f"{summary['profile']}.json"
    path.write_text(json.dumps(kept, indent=1) + "\n")
    return path


def page(summary: dict[str, Any]) -> str:
    """The page of a kept summary."""
    sections = [
        {
            "name": name,
            "title": title,
            "caption": FIGURES[name].CAPTION,
            "claims": [claim for claim in summary["claims"] if claim["figure"] == name],
            "lost": summary["lost"].get(name, {}),
        }
        for name, title in TITLES.items()
        if name in summary["figures"]
    ]
    return template("page.md.j2").render(summary=summary, sections=sections)


def with_table1(text: str, summary: dict[str, Any]) -> str:
    """docs/results.md with the table of a kept summary between its marks."""
    before, rest = text.split(_MARKS[0])
    _, after = rest.split(_MARKS[1])
    table = template("table1.md.j2").render(cells=summary["figures"]["table1"]["cells"])
    return f"{before}{_MARKS[0]}\n{table}{_MARKS[1]}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.page", description=__doc__)
    parser.add_argument("--profile", default="laptop")
    profile = parser.parse_args(arguments).profile
    results = ROOT / "results" / profile
    if not (results / "summary.json").exists():
        print(f"no summary at {results}: make reproduce-figures writes it", file=sys.stderr)
        return 1
    summary = json.loads(keep(results).read_text())
    path = DOCS / f"{profile}.md"
    path.write_text(page(summary))
    print(path)
    if profile == RESULTS_PROFILE:
        path = DOCS / "results.md"
        path.write_text(with_table1(path.read_text(), summary))
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
