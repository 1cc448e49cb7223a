"""Numbers as summary.json holds them."""

from __future__ import annotations

import math

from analysis.stats import ENOUGH_RUNS


def known(value: float) -> float | None:
    """A number, or None where JSON has none: infinite or not a number."""
    return round(float(value), 6) if math.isfinite(value) else None


def interval(low: float, high: float) -> list[float | None] | None:
    """[low, high], an infinite end as None; None where there is no interval."""
    return None if math.isnan(low) else [known(low), known(high)]


def repetitions(n: int) -> str:
    """How many runs stand behind a picture; too few for a claim are called indicative."""
    return f"n = {n}" if n >= ENOUGH_RUNS else f"indicative, n = {n}"
