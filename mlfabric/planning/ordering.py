"""Shortest transfer first, with a bound on delay and drops before sending [paper]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlfabric.events import Update
from mlfabric.planning.residual import Residual


@dataclass(frozen=True)
class Dropped:
    """An update left out, with the delay in versions that it would have had."""

    update: Update
    delay: int


@dataclass(frozen=True)
class Ordering:
    """The updates kept, in commit order, and those dropped."""

    kept: tuple[Update, ...]
    dropped: tuple[Dropped, ...]


def order(
    updates: Sequence[Update],
    residual: Residual,
    server: str,
    version: int,
    delay_bound: int | None,
    now: float,
) -> Ordering:
    """Order updates as if each were sent straight to `server`.

    Again and again the remaining update with the smallest completion time (ties: input order) is
    appended, or dropped if, applied at this position, its delay would exceed `delay_bound`
    (None: no bound). `version` counts every commit that comes before this batch. Raises nothing.
    """
    remaining = list(updates)
    kept: list[Update] = []
    dropped: list[Dropped] = []
    while remaining:
        ends = [residual.finish(u.worker, server, max(u.ready_s, now), u.bytes) for u in remaining]
        update = remaining.pop(ends.index(min(ends)))
        delay = version + len(kept) - update.version
        if delay_bound is not None and delay > delay_bound:
            dropped.append(Dropped(update, delay))
            continue
        pieces = residual.pieces(update.worker, server, max(update.ready_s, now), update.bytes)
        residual = residual.minus(update.worker, server, pieces)
        kept.append(update)
    return Ordering(tuple(kept), tuple(dropped))
