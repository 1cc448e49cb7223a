"""Variants that figures compare: a policy, and how its scheduler sums; each with its look."""

from __future__ import annotations

import itertools
import re
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


# seaborn's color-blind-safe palette; its pairs that come close (orange beside vermilion) differ in
# marker and dashes.
_COLORS = sns.color_palette("colorblind").as_hex()
LOOKS = {
    PAPER_MODE: Look(_COLORS[0], "o", "-", "paper mode"),
    PIPELINED: Look(_COLORS[4], "P", (0, (4, 1, 1, 1)), "pipelined"),
    UNSUMMED: Look(_COLORS[9], "v", (0, (1, 1.5)), "no sums"),
    RING: Look(_COLORS[1], "s", (0, (5, 1.5)), "ring"),
    ASYNC: Look(_COLORS[2], "^", (0, (1.5, 1)), "async"),
    "async_bounded": Look(_COLORS[3], "<", (0, (3, 1)), "async bounded"),
    "ssp": Look(_COLORS[5], ">", (0, (2, 2)), "ssp"),
    "sync_ps": Look(_COLORS[6], "D", (0, (5, 1)), "sync"),
    "sync_backup": Look(_COLORS[7], "d", (0, (5, 3)), "sync backup"),
    "tree_allreduce": Look(_COLORS[8], "p", (0, (3, 1, 1, 1)), "tree"),
    "mpi_allreduce": Look("black", "*", (0, (1, 1)), "MPI"),
    "mlfabric_s": Look("#004a7c", "h", (0, (6, 2)), "sync"),
    "mlfabric_ssp": Look("#7b68a6", "8", (0, (3, 2)), "ssp"),
    "gloo": Look(_COLORS[7], "X", (0, (1, 1)), "gloo"),
    "mlfabric_allreduce": Look("#5a8f00", "H", (0, (6, 1, 1, 1)), "all-reduce"),
}
SUMMING = {
    "none": LOOKS[UNSUMMED],
    "paper": LOOKS[PAPER_MODE],
    "paper_best_fit": Look("0.45", "x", (0, (1.5, 1)), "paper, best fit"),
    "refined": Look(_COLORS[3], "^", (0, (5, 1.5)), "refined"),
    "pipelined": LOOKS[PIPELINED],
}
"""How a scheduler's way of summing is drawn where nothing else differs."""
_OTHER_MARKERS = "XPDphHd"
_OTHER_DASHES: tuple[Dashes, ...] = ((0, (1, 2)), (0, (4, 2)), (0, (2, 1, 1, 1)))


def look_of(variant: str) -> Look:
    """How a variant is drawn. One without a look of its own has its policy's color (gray for a
    policy of others), and marker and dashes that depend on its name alone."""
    if variant in LOOKS:
        return LOOKS[variant]
    names = itertools.accumulate(re.split("(?=[ ,])", variant))
    color = next((LOOKS[name].color for name in reversed([*names]) if name in LOOKS), "0.45")
    number = sum(variant.encode())
    marker = _OTHER_MARKERS[number % len(_OTHER_MARKERS)]
    return Look(color, marker, _OTHER_DASHES[number % len(_OTHER_DASHES)], variant)


def variants_of(frame: pd.DataFrame) -> list[str]:
    """Variant of every row of a frame: columns policy, aggregation, servers, colocated and
    replication (null: the default)."""
    names = ("policy", "aggregation", "servers", "colocated", "replication")
    columns = (frame[name] for name in names)
    return [
        variant_name(
            policy,
            None if pd.isna(how) else how,
            1 if pd.isna(servers) else int(servers),
            colocated=not pd.isna(colocated) and bool(colocated),
            replication=None if pd.isna(replication) else replication,
        )
        for policy, how, servers, colocated, replication in zip(*columns, strict=True)
    ]
