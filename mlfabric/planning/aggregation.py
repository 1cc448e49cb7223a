"""Which updates go straight to the server and which are summed on the way [paper, Fig. 6]."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlfabric.events import Update
from mlfabric.planning.profile import Piece
from mlfabric.planning.residual import Residual

AggregatorChoice = Literal["in_order", "random", "best_fit"]


@dataclass(frozen=True)
class PlannedTransfer:
    """`updates` (one, or the members of a sum) cross from `src` to `dst` in `pieces`."""

    updates: tuple[str, ...]
    src: str
    dst: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Group:
    """Updates that the server commits together; `via` is where they are summed, None if direct."""

    members: tuple[Update, ...]
    via: str | None
    commit_s: float
    transfers: tuple[PlannedTransfer, ...]


@dataclass(frozen=True)
class Plan:
    """Groups in commit order, and what the links have left after them."""

    groups: tuple[Group, ...]
    residual: Residual

    @property
    def mean_completion(self) -> float:
        """Mean time at which an update's group is at the server; 0 for an empty plan."""
        ends = [group.commit_s for group in self.groups for _ in group.members]
        return sum(ends) / len(ends) if ends else 0.0


def choose_aggregators(
    idle: Sequence[str], choice: AggregatorChoice, rng: random.Random
) -> tuple[str, ...]:
    """Idle hosts in the order in which groups try them: as given, or shuffled [paper]."""
    hosts = list(idle)
    if choice == "random":
        rng.shuffle(hosts)
    return tuple(hosts)


@dataclass(frozen=True)
class Site:
    """Where a batch goes, and who may sum it on the way.

    `aggregators` are idle hosts in the order in which they are tried; with `best_fit` all are
    tried for every group. `model_bytes` bounds the size of a sum. Until `busy_until_s` the server's
    link is taken by earlier batches: groups may be collected meanwhile. Times in seconds.
    """

    server: str
    aggregators: tuple[str, ...]
    best_fit: bool
    model_bytes: int
    now: float
    busy_until_s: float


def plan_direct(updates: Sequence[Update], residual: Residual, site: Site) -> Plan:
    """Every update is a group of its own, sent straight to the server in the given order."""
    groups = []
    for update in updates:
        group, residual = _direct(update, residual, site)
        groups.append(group)
    return Plan(tuple(groups), residual)


def plan_groups(updates: Sequence[Update], residual: Residual, site: Site) -> Plan:
    """Try every number k of direct updates and keep the smallest mean completion time.

    `updates` are in commit order. With equal means the plan with more direct updates wins, so
    aggregation is never worse than sending all directly.
    """
    best = plan_direct(updates, residual, site)
    for k in range(len(updates) - 1, -1, -1):
        plan = _plan_with(k, updates, residual, site)
        if plan.mean_completion < best.mean_completion - 1e-12:
            best = plan
    return best


def _plan_with(k: int, updates: Sequence[Update], residual: Residual, site: Site) -> Plan:
    first = plan_direct(updates[:k], residual, site)
    groups, residual, rest = list(first.groups), first.residual, list(updates[k:])
    arrival = max((group.commit_s for group in groups), default=site.busy_until_s)
    idle = list(site.aggregators)
    while rest and idle:
        collected = _collected_in_time(rest, residual, idle, arrival, site)
        if collected is None:
            group, residual = _direct(rest[0], residual, site)
        else:
            group, residual = _summed(collected, site)
            idle.remove(collected.via)
        groups.append(group)
        arrival, rest = max(arrival, group.commit_s), rest[len(group.members) :]
    tail = plan_direct(rest, residual, site)
    return Plan((*groups, *tail.groups), tail.residual)


@dataclass(frozen=True)
class _Collected:
    via: str
    members: tuple[Update, ...]
    transfers: tuple[PlannedTransfer, ...]
    end: float
    residual: Residual


def _collected_in_time(
    updates: Sequence[Update], residual: Residual, idle: Sequence[str], deadline: float, site: Site
) -> _Collected | None:
    """The first idle host that can collect two or more updates, or the one that suits best.

    Best is the most updates, then the earliest end.
    """
    found = (_collect(updates, residual, via, deadline, site.now) for via in idle)
    fitting = (collected for collected in found if len(collected.members) > 1)
    if not site.best_fit:
        return next(fitting, None)
    return max(fitting, key=lambda c: (len(c.members), -c.end), default=None)


def _collect(
    updates: Sequence[Update], residual: Residual, via: str, deadline: float, now: float
) -> _Collected:
    """Take updates in order for as long as collecting them at `via` ends by `deadline`."""
    taken = _Collected(via, (), (), now, residual)
    for update in updates:
        transfer = _transfer(update, taken.residual, via, now)
        end = _end(transfer.pieces, max(update.ready_s, now))
        if end > deadline:
            break
        taken = _Collected(
            via,
            (*taken.members, update),
            (*taken.transfers, transfer),
            max(taken.end, end),
            taken.residual.minus(update.worker, via, transfer.pieces),
        )
    return taken


def _summed(collected: _Collected, site: Site) -> tuple[Group, Residual]:
    via, members = collected.via, collected.members
    largest = max(site.model_bytes, max(u.bytes for u in members))
    sum_bytes = min(sum(u.bytes for u in members), largest)
    pieces = collected.residual.pieces(via, site.server, collected.end, sum_bytes)
    crossing = PlannedTransfer(tuple(u.id for u in members), via, site.server, pieces)
    moving = tuple(t for t in collected.transfers if t.src != t.dst)
    group = Group(members, via, _end(pieces, collected.end), (*moving, crossing))
    return group, collected.residual.minus(via, site.server, pieces)


def _direct(update: Update, residual: Residual, site: Site) -> tuple[Group, Residual]:
    transfer = _transfer(update, residual, site.server, site.now)
    end = _end(transfer.pieces, max(update.ready_s, site.now))
    group = Group((update,), None, end, (transfer,))
    return group, residual.minus(update.worker, site.server, transfer.pieces)


def _transfer(update: Update, residual: Residual, dst: str, now: float) -> PlannedTransfer:
    pieces = residual.pieces(update.worker, dst, max(update.ready_s, now), update.bytes)
    return PlannedTransfer((update.id,), update.worker, dst, pieces)


def _end(pieces: tuple[Piece, ...], ready: float) -> float:
    return pieces[-1].end if pieces else ready
