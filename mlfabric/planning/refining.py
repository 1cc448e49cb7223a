"""A better search for plans of the paper's kind: orders and groups its rule does not try [ours].

The paper groups updates in order of their direct completion. Two things are lost by that: an update
whose worker could sum others goes first instead of waiting at home, and a group takes whatever
arrives in time even if that makes its sum larger. Here other orders are tried as well, and plans of
few updates are improved step by step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mlfabric.events import Update
from mlfabric.planning.aggregation import paper_groups
from mlfabric.planning.batch import Batch
from mlfabric.planning.grouping import Shape, direct, realize, summed
from mlfabric.planning.kernels.paths import RESIDUE, ULPS

MAX_STEPWISE = 6
"""Up to this many updates, plans are improved step by step; that takes tens of milliseconds."""

MAX_HOSTS = 4
"""So many unused aggregators are tried at a step, the first ones given."""

_Group = tuple[tuple[Update, ...], str | None]
"""Members, and the host that sums them."""


def reordered_groups(batch: Batch, updates: tuple[Update, ...]) -> Iterator[list[Shape]]:
    """The paper's own plan, and those that its rule makes of other orders within the bound."""
    for order in _orders(batch, updates):
        for shapes in paper_groups(batch, order):
            if order is updates or _seconds(batch, shapes) < math.inf:
                yield shapes


def refined_groups(batch: Batch, updates: tuple[Update, ...]) -> Iterator[list[Shape]]:
    """The same, and the best of them improved step by step."""
    fitting = list(reordered_groups(batch, updates))
    yield from fitting
    if len(updates) <= MAX_STEPWISE:
        yield _improved(batch, min(fitting, key=lambda shapes: _seconds(batch, shapes)))


def _orders(batch: Batch, updates: tuple[Update, ...]) -> list[tuple[Update, ...]]:
    """As given; and with updates of aggregators' hosts after others of their size, or last."""
    at_home = set(batch.aggregators)
    orders = [
        updates,
        tuple(sorted(updates, key=lambda u: (u.bytes, u.worker in at_home))),
        tuple(sorted(updates, key=lambda u: u.worker in at_home)),
    ]
    return list(dict.fromkeys(orders))


def _seconds(batch: Batch, shapes: Sequence[Shape]) -> float:
    """Mean seconds until an update is committed; inf where a delay exceeds the bound."""
    plan, bound = realize(batch, shapes), batch.delay_bound
    late = bound is not None and any(
        group.version_before - update.version > bound
        for group in plan.groups
        for update in group.members
    )
    return math.inf if late else plan.mean_completion_s - batch.now


def _improved(batch: Batch, shapes: list[Shape]) -> list[Shape]:
    """Go to the best neighboring plan until none is better."""
    best = _seconds(batch, shapes)
    while True:
        groups = [(shape.members, shape.via) for shape in shapes]
        options = [_shapes(batch, option) for option in _neighbors(batch, groups)]
        found = [(_seconds(batch, option), place) for place, option in enumerate(options)]
        seconds, place = min(found, default=(best, 0))
        if seconds >= best - RESIDUE * best - ULPS * abs(batch.now):
            return shapes
        best, shapes = seconds, options[place]


def _shapes(batch: Batch, groups: Sequence[_Group]) -> list[Shape]:
    return [
        direct(members[0], batch.server) if via is None else summed(members, via, batch.server)
        for members, via in groups
    ]


def _neighbors(batch: Batch, groups: list[_Group]) -> Iterator[list[_Group]]:
    """Plans one step away: an update goes elsewhere, or a group to another place or host."""
    for place, (members, via) in enumerate(groups):
        before, after = groups[:place], groups[place + 1 :]
        for other in range(len(groups) - 1):
            rest = before + after
            yield [*rest[:other], groups[place], *rest[other:]]
        for host in _unused(batch, groups) if via else ():
            yield [*before, (members, host), *after]
        for update in members:
            yield from _moved(batch, [*before, *_without(members, via, update), *after], update)


def _without(members: tuple[Update, ...], via: str | None, update: Update) -> list[_Group]:
    """A group less one member; a single one left is sent straight."""
    left = tuple(member for member in members if member is not update)
    return [(left, via if len(left) > 1 else None)] if left else []


def _moved(batch: Batch, groups: list[_Group], update: Update) -> Iterator[list[_Group]]:
    """An update alone at any place, in any sum, or summed with any that is sent straight."""
    for place in range(len(groups) + 1):
        yield [*groups[:place], ((update,), None), *groups[place:]]
    for place, (members, via) in enumerate(groups):
        for host in [via] if via else _unused(batch, groups):
            joined = ((*members, update), host)
            yield [*groups[:place], joined, *groups[place + 1 :]]


def _unused(batch: Batch, groups: Sequence[_Group]) -> list[str]:
    used = {via for _, via in groups}
    return [host for host in batch.aggregators if host not in used][:MAX_HOSTS]
