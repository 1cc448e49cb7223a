"""Variants that figures compare: a policy, and how its scheduler sums; each with its look."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import seaborn as sns

from analysis.names import variant_name

Dashes = str | tuple[int, tuple[float, ...]]

RING = "ring_allreduce"
ASYNC = "async_ps"
PAPER_MODE = "mlfabric_a"
PIPELINED = "mlfabric_a pipelined"
UNSUMMED = "mlfabric_a none"
BASELINES = (RING, ASYNC)  # at a tie, the first is the better one


@dataclass(frozen=True)
class Look:
    """How a variant is drawn; marker and dashes tell it apart without color."""

    color: str
    marker: str
    dashes: Dashes
    short: str  # its name in a narrow panel


# seaborn's color-blind-safe palette, less its pairs that come close (orange beside vermilion).
_COLORS = sns.color_palette("colorblind").as_hex()
LOOKS = {
    PAPER_MODE: Look(_COLORS[0], "o", "-", "paper mode"),
    PIPELINED: Look(_COLORS[4], "P", (0, (4, 1, 1, 1)), "pipelined"),
    UNSUMMED: Look(_COLORS[9], "v", (0, (1, 1.5)), "no sums"),
    RING: Look(_COLORS[1], "s", (0, (5, 1.5)), "ring"),
    ASYNC: Look(_COLORS[2], "^", (0, (1.5, 1)), "async"),
}


def variants_of(frame: pd.DataFrame) -> list[str]:
    """Variant of every row of a frame: columns policy, aggregation, servers, colocated (null: the
    default)."""
    columns = (frame[name] for name in ("policy", "aggregation", "servers", "colocated"))
    return [
        variant_name(
            policy,
            None if pd.isna(how) else how,
            1 if pd.isna(servers) else int(servers),
            colocated=not pd.isna(colocated) and bool(colocated),
        )
        for policy, how, servers, colocated in zip(*columns, strict=True)
    ]
