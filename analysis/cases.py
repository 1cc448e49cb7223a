"""Problems put to the planner and its answers, as a reproduction leaves them behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from analysis.errors import AnalysisError


@dataclass(frozen=True)
class Case:
    """One problem, and what the planner answered to it; both as its JSON has them."""

    problem: dict[str, Any]
    answer: dict[str, Any]

    @property
    def mean_completion_s(self) -> float:
        """Mean time at which the updates kept are applied."""
        return float(self.answer["mean_completion"])

    def applied(self) -> tuple[list[float], list[int]]:
        """Times of the commits, and how many updates are applied from each on."""
        groups = self.answer["groups"]
        counts = accumulate(len(group["members"]) for group in groups)
        return [group["commit"] for group in groups], list(counts)

    def delays(self) -> dict[str, int]:
        """Delay, in versions, of every update that is applied."""
        pulled = {update["id"]: update["version"] for update in self.problem["updates"]}
        return {
            name: group["version_before"] - pulled[name]
            for group in self.answer["groups"]
            for name in group["members"]
        }

    def pieces_into_server(self) -> list[tuple[float, float, float]]:
        """(start, end, bytes/s) of everything that the server receives, by start."""
        server = self.problem["server"]
        transfers = [t for t in self.answer["transfers"] if t["dst"] == server]
        return sorted(tuple(piece) for t in transfers for piece in t["pieces"])

    def bytes_into_server(self) -> float:
        """What the server receives, updates and sums."""
        return sum(rate * (end - start) for start, end, rate in self.pieces_into_server())


def read_cases(path: Path) -> dict[str, Case]:
    """Read the cases of a figure; raises AnalysisError when the file is absent."""
    if not path.exists():
        raise AnalysisError(f"no planner answers at {path}: make reproduce-figures writes them")
    cases = json.loads(path.read_text())["cases"]
    return {name: Case(case["problem"], case["answer"]) for name, case in cases.items()}


def numbers(cases: Iterable[tuple[str, Case]]) -> dict[str, Any]:
    """What summary.json says of every case."""
    return {
        name: {
            "mean_completion_s": round(case.mean_completion_s, 6),
            "longest_delay": max(case.delays().values(), default=None),
            "dropped": [drop["id"] for drop in case.answer["dropped"]],
            "bytes_into_server": round(case.bytes_into_server()),
        }
        for name, case in cases
    }
