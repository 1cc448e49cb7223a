"""What a figure says beside the paper, one Finding a statement, each with a verdict.

Every figure's module has `findings(numbers)`: its own summary in, so that the report, summary.json
and MLflow tell the same numbers.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from analysis.stats import ENOUGH_RUNS

Value = float | str | None
Interval = list[float | None] | None

AHEAD = 1.01
"""A ratio of times beats 1 from here on [ours]: equal snapshots differ by milliseconds."""

CLOSE = 1.25
"""Two ratios agree [ours] where neither is more than so many times the other."""


@dataclass(frozen=True)
class Finding:
    """A statement, the paper's value and ours, and whether ours keeps to the tolerance.

    `n` counts runs or pairs of runs, and is None where nothing is random. `holds` is None where
    what was measured cannot tell; `reason` says why.
    """

    claim: str
    ours: Value
    tolerance: str
    holds: bool | None
    paper: Value = None
    ci95: Interval = None
    n: int | None = None
    missed: int = 0
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.holds is None and self.reason is None:
            object.__setattr__(self, "reason", "too few runs with a result to tell")

    @property
    def indicative(self) -> bool:
        """Whether too few runs stand behind it for a claim."""
        return self.n is not None and self.n < ENOUGH_RUNS

    @property
    def verdict(self) -> str:
        """In words."""
        word = {True: "holds", False: "does not hold", None: "open"}[self.holds]
        return f"{word}, indicative" if self.indicative and self.holds is not None else word

    def entry(self, figure: str) -> dict[str, Any]:
        """Its entry among the claims of summary.json."""
        told = {"verdict": self.verdict, "indicative": self.indicative}
        return {"figure": figure, **dataclasses.asdict(self), **told}


def close_to(ours: float | None, paper: float) -> bool | None:
    """Whether a measured ratio agrees with the paper's; None where there is no finite one."""
    if ours is None:
        return None
    return ours > 0 and abs(math.log(ours / paper)) <= math.log(CLOSE)


def ahead(ci95: Interval) -> bool | None:
    """Whether a whole interval lies above AHEAD; None where there is no interval."""
    if ci95 is None:
        return None
    low = ci95[0]
    return low is None or low > AHEAD


def ratio(value: float | None, n: int) -> Value:
    """A median ratio as summary.json has it: null with runs behind it is infinite."""
    return "∞" if value is None and n else value


def bench_findings(numbers: dict[str, Any]) -> list[Finding]:
    """Each ratio that a benchmark claims, beside what is allowed of it."""
    return [
        Finding(one["what"], round(one["ratio"], 4), one["allowed"], one["holds"])
        for one in numbers["claims"]
    ]
