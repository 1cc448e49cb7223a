"""One planning decision: order, drop, group, reserve."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mlfabric.events import Update
from mlfabric.planning.aggregation import paper_groups
from mlfabric.planning.batch import Aggregation, Batch, Plan
from mlfabric.planning.distribution import plan_tree
from mlfabric.planning.grouping import Shape, direct, realize, summed
from mlfabric.planning.ordering import order
from mlfabric.planning.pipelining import pipelined_groups
from mlfabric.planning.profile import Profile
from mlfabric.planning.refining import refined_groups
from mlfabric.planning.residual import Network

Grouping = Callable[[Batch, tuple[Update, ...]], Iterable[list[Shape]]]


def plan(batch: Batch) -> Plan:
    """Order the updates of a batch, drop those that would be too late, and group the rest.

    The same batch gives the same plan. Raises nothing.
    """
    ordering = order(batch)
    if not ordering.kept:
        return Plan((), ordering.dropped, batch.residual)
    plans = [
        realize(batch, shapes, ordering.dropped)
        for grouping in _GROUPINGS[batch.aggregation]
        for shapes in grouping(batch, ordering.kept)
    ]
    best = min(plans, key=lambda plan: plan.mean_completion_s)
    if any(group.commit_s > group.arrival_s for group in best.groups):
        # Groupings look at arrivals; a group that the bound holds back may have spoilt the gain.
        straight = realize(batch, _all_direct(batch, ordering.kept)[0], ordering.dropped)
        best = min(best, straight, key=lambda plan: plan.mean_completion_s)
    return best


def plan_sum(batch: Batch) -> Plan:
    """As `plan`, but that the first two updates are summed at a host, worthwhile or not."""
    ordering = order(batch)
    if len(ordering.kept) < 2 or not batch.aggregators:
        return plan(batch)
    pair, rest = ordering.kept[:2], ordering.kept[2:]
    shapes = [summed(pair, batch.aggregators[0], batch.server)]
    shapes += [direct(update, batch.server) for update in rest]
    return realize(batch, shapes, ordering.dropped)


def _all_direct(batch: Batch, updates: tuple[Update, ...]) -> list[list[Shape]]:
    return [[direct(update, batch.server) for update in updates]]


_GROUPINGS: dict[Aggregation, tuple[Grouping, ...]] = {
    "none": (_all_direct,),
    "paper": (paper_groups,),
    "refined": (refined_groups,),
    "pipelined": (paper_groups, pipelined_groups),
}
"""What is tried in each mode; the best is kept, the earlier one of equals."""


def warm_up() -> None:
    """Compile all of planning, or load it, which takes half a minute the first time."""
    network = Network(("a", "b", "s"))
    free = network.residual({link: Profile.constant(1.0) for link in network.link_row})
    updates = tuple(Update(f"u{i}", "ab"[i % 2], 1 + i, i, 0.0) for i in range(4))
    batch = Batch(updates, free, "s", version=4, delay_bound=5, aggregators=("a", "b"))
    for aggregation in _GROUPINGS:
        plan(replace(batch, aggregation=aggregation, ordering="delay_aware"))
    plan_tree("s", ("a", "b"), free, 2.0, 1.0, 0.0)
    free.finish("a", "s", 0.0, 1.0)
    free.forget_before(0.0)
