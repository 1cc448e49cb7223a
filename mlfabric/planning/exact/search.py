"""The exact optimum of joint ordering and forwarding, by integer programs [paper, appendix].

Every update takes its first hop to the server or to an aggregator; an aggregator sends one sum,
once it has all its members, or the one. The sum of the completion times is the least there is on a
grid of time slots. The choices of first hops (the paper's y[i,d]) are gone through from the lowest
bound up, and those that may still be the best are solved as an integer program each [ours]: that is
many times quicker than one program for all.

Needs SciPy, whose `milp` is HiGHS: install `mlfabric[exact]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from mlfabric.errors import GridTooFine, SettingError
from mlfabric.planning.batch import Batch
from mlfabric.planning.exact.program import Program
from mlfabric.planning.exact.relaxation import Relaxation
from mlfabric.planning.exact.slots import Slots, grid_slot_s

Hops = tuple[str, ...]

_FINEST = 40
"""Slots that sending all directly takes on the first of the coarse grids that are tried."""
_COARSER = 1.1
"""Slot of the next one, as a multiple."""


@dataclass(frozen=True)
class Optimum:
    """The best plan found on a grid of `slot_s` seconds.

    No plan on the grid has a mean completion time below `bound_s`; with `proven` the one found is
    no worse. `first_hop` (the server or an aggregator) and `completion_s` are by update id; they
    are empty and the mean is infinite where the time did not suffice to find a plan.
    """

    mean_completion_s: float
    bound_s: float
    proven: bool
    first_hop: Mapping[str, str]
    completion_s: Mapping[str, float]
    slot_s: float


def optimum(
    batch: Batch,
    *,
    slot_s: float | None = None,
    horizon_slots: int | None = None,
    reachable_s: float | None = None,
    time_limit_s: float = 60.0,
    max_slots: int = 40,
    max_updates: int = 5,
    max_aggregators: int = 2,
) -> Optimum:
    """The plan with the smallest mean completion time; nothing is dropped.

    `slot_s` defaults to the largest on whose grid lies all that happens alone. No update completes
    after `horizon_slots`, by default when it must in a plan no worse than sending all directly.
    `reachable_s` is the mean completion time of a plan known to be possible on the grid: only those
    no worse are looked at. Every choice of first hops has `time_limit_s`; few need it. Raises
    SettingError where the problem is larger than the limits, or where no plan fits; GridTooFine
    where larger slots would do.
    """
    _allow("updates", len(batch.updates), max_updates)
    _allow("aggregators", len(batch.aggregators), max_aggregators)
    if not batch.updates:
        return Optimum(0.0, 0.0, True, {}, {}, slot_s or 0.0)
    slots = Slots(batch, slot_s or grid_slot_s(batch), max_slots)
    total = _reachable(slots, reachable_s)
    if horizon_slots is None:
        horizon_slots = Relaxation(slots, (batch.server,) * len(batch.updates)).horizon(total)
    if horizon_slots > max_slots:
        raise GridTooFine(
            f"exact: {horizon_slots} slots of {slots.slot_s:g} s, at most {max_slots} are allowed"
        )
    return _Search(Slots(batch, slots.slot_s, horizon_slots), total, time_limit_s).best()


def optimum_or_estimate(batch: Batch, direct_s: float) -> Optimum:
    """The optimum; on a coarse grid, where it is an upper estimate, if its own is too fine.

    `direct_s` is how long sending all directly takes. Raises SettingError where the batch has too
    many updates or aggregators.
    """
    try:
        return optimum(batch)
    except GridTooFine:
        slot_s = max(direct_s / _FINEST, math.ulp(batch.now))
    while True:
        try:
            return optimum(batch, slot_s=slot_s)
        except GridTooFine:
            slot_s *= _COARSER


def _allow(what: str, count: int, allowed: int) -> None:
    if count > allowed:
        raise SettingError(f"exact: {count} {what}, at most {allowed} are allowed")


def _reachable(slots: Slots, reachable_s: float | None) -> int:
    """The sum of completion times, in slots, of the best plan that is known."""
    n, now = len(slots.batch.updates), slots.batch.now
    totals = [] if (direct := slots.sent_directly()) is None else [direct]
    if reachable_s is not None:
        totals.append(math.floor(n * (reachable_s - now) / slots.slot_s + 1e-6))
    if not totals:
        raise GridTooFine(
            f"exact: sending all directly takes more than {slots.count} slots of "
            f"{slots.slot_s:g} s; give a larger slot_s"
        )
    return min(totals)


class _Search:
    """Goes through the choices of first hops until none can be better than the best plan found."""

    def __init__(self, slots: Slots, total: int, time_limit_s: float) -> None:
        self._slots = slots
        self._total = total + 1
        self._time_limit_s = time_limit_s
        self._hops: Hops = ()
        self._completions: tuple[int, ...] = ()
        self._open: list[int] = []

    def best(self) -> Optimum:
        choices = [(Relaxation(self._slots, hops), hops) for hops in _choices(self._slots.batch)]
        bounded = [(relaxed.least_total(), relaxed, hops) for relaxed, hops in choices]
        for least, relaxed, hops in sorted(bounded, key=lambda choice: choice[0]):
            if least >= self._total:
                break
            self._solve(least, relaxed, hops)
        return self._optimum()

    def _solve(self, least: int, relaxed: Relaxation, hops: Hops) -> None:
        goal = self._total - 1
        count = min(self._slots.count, relaxed.horizon(goal))
        slots = Slots(self._slots.batch, self._slots.slot_s, count)
        solved = Program(slots, hops, goal).solve(self._time_limit_s)
        if solved.completions:
            self._total = sum(solved.completions)
            self._hops, self._completions = hops, solved.completions
        if not solved.proven:
            self._open.append(max(solved.least_total, least))

    def _optimum(self) -> Optimum:
        batch, slot_s, count = self._slots.batch, self._slots.slot_s, self._slots.count
        if not self._hops and not self._open:
            raise SettingError(f"exact: no plan completes within {count} slots of {slot_s:g} s")
        least, ids = min([self._total, *self._open]), [update.id for update in batch.updates]
        ends = [batch.now + slot_s * end for end in self._completions]
        return Optimum(
            sum(ends) / len(ids) if ends else math.inf,
            batch.now + slot_s * least / len(ids),
            bool(ends) and least == self._total,
            dict(zip(ids, self._hops, strict=False)),
            dict(zip(ids, ends, strict=False)),
            slot_s,
        )


def _choices(batch: Batch) -> Iterator[Hops]:
    """First hops of all updates.

    One alone at an aggregator may be worth it: what a slow link has brought there leaves at once.
    """
    return product((batch.server, *batch.aggregators), repeat=len(batch.updates))
