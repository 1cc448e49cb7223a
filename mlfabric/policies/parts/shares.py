"""How much of a sum each host makes, by the rates of their links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ALIKE = 0.65
"""Hosts with at least this share of the median rate count as equal: estimates are not exact, and
equal shares lose nothing while links are equal [ours]."""


def shares(rates: Floats) -> Floats:
    """Share of the vector that each host sums and sends to all others; they add up to 1.

    A host with share x of a vector of size S sends (1 - x) S to those that sum the rest and
    x (n - 1) S to those that want its sums: S (1 + x (n - 2)) in all. These shares let the last
    host be done as soon as can be: time T is the least at which the hosts' x = (T B / S - 1) /
    (n - 2), where above 0, add up to 1. On equal links each has 1/n, and sends 2 (n - 1) / n of
    the vector, as in a ring; a host behind a slow link sends its own part and sums nothing.
    """
    hosts = len(rates)
    if hosts <= 2:
        return np.full(hosts, 1.0 / hosts)
    level = float(np.median(rates))
    speeds = np.where(rates >= ALIKE * level, 1.0, rates / level)
    order = np.sort(speeds)[::-1]
    for count in range(1, hosts + 1):  # the fastest `count` hosts take part
        time = (hosts - 2 + count) / order[:count].sum()
        if count == hosts or time * order[count] <= 1.0:
            break
    found: Floats = np.maximum(time * speeds - 1.0, 0.0) / (hosts - 2)
    found /= found.sum()
    return found


def boundaries(portions: Floats, size: int) -> list[int]:
    """Where each host's share of `size` entries begins, and where the last one ends."""
    ends = np.rint(np.cumsum(portions) * size).astype(np.int64)
    return [0, *ends[:-1].tolist(), size]


def median_rates(told: Sequence[Sequence[float]], before: Floats) -> Floats:
    """Each host's rate, in the median of what others have seen; as before where none has."""
    if not told:
        return before
    seen = np.array(told)
    known = np.isfinite(seen).any(axis=0)
    found = before.copy()
    found[known] = np.nanmedian(seen[:, known], axis=0)
    return found
