"""The plan that a reproduction leaves behind: which runs belong to which figure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError

CELL = ["workload", "cluster", "network", "compute", "policy", "seed"]
# What else may tell a figure's cells apart; null where it does not apply or a plan has none.
DETAILS = [
    "aggregation",
    "engine",
    "delay_bound",
    "workers",
    "servers",
    "colocated",
    "replication",
    "fault",
]
PLANNED = ["fingerprint", *CELL, *DETAILS]


@dataclass(frozen=True)
class Plan:
    """A profile's runs, named by fingerprint, and the store that holds them (None: no runs)."""

    profile: str
    tracking_uri: str | None
    tracking_experiment: str | None
    machine: dict[str, str]
    figures: dict[str, pd.DataFrame]  # columns: PLANNED

    def cells(self, figure: str) -> pd.DataFrame:
        """The planned runs of one figure; raises AnalysisError for a figure not planned."""
        if figure not in self.figures:
            raise AnalysisError(
                f"figure {figure!r} is not in the plan of profile {self.profile!r}; "
                f"planned: {', '.join(self.figures)}"
            )
        return self.figures[figure]


def read_plan(path: Path) -> Plan:
    """Read plan.json; raises AnalysisError when it is absent."""
    if not path.exists():
        raise AnalysisError(f"no plan at {path}: make reproduce-figures writes it")
    content = json.loads(path.read_text())
    figures = {
        name: pd.DataFrame(cells, columns=PLANNED) for name, cells in content["figures"].items()
    }
    return Plan(
        content["profile"],
        content["tracking_uri"],
        content["tracking_experiment"],
        content.get("machine", {}),
        figures,
    )
