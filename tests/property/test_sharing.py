"""What must hold of fair sharing, and of time-sharing beside it [paper, Fig. 1]."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlfabric.events import Update
from mlfabric.planning.planner import plan
from mlfabric.planning.sharing import fair_rates, plan_fair
from tests.support.batches import (
    assert_within_capacity,
    batches,
    bytes_of,
    carried,
    make_batch,
    profiles,
    rate_of,
)


@given(
    st.lists(st.floats(0.1, 10.0), min_size=5, max_size=5),
    st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=8),
)
def test_rates_are_max_min_fair(capacity, flows):
    """No link is over its capacity, and every flow is the fastest of one that is full."""
    rates = fair_rates([tuple(flow) for flow in flows], capacity)
    load = [sum(r for r, f in zip(rates, flows, strict=True) if link in f) for link in range(5)]
    assert all(used <= limit * (1 + 1e-9) for used, limit in zip(load, capacity, strict=True))
    for rate, flow in zip(rates, flows, strict=True):
        assert any(
            load[link] >= capacity[link] * (1 - 1e-9)
            and all(
                rate >= other * (1 - 1e-9)
                for other, its in zip(rates, flows, strict=True)
                if link in its
            )
            for link in flow
        )


@given(batches())
@settings(max_examples=60, deadline=None)
def test_every_update_crosses_once_and_no_link_is_over_its_capacity(batch):
    shared = plan_fair(replace(batch, delay_bound=None))
    assert sorted(g.members[0].id for g in shared.groups) == sorted(u.id for u in batch.updates)
    for group in shared.groups:
        assert bytes_of(group.transfers[0]) == pytest.approx(group.members[0].bytes, rel=1e-6)
        assert group.transfers[0].pieces[0].start >= group.members[0].ready_s
        assert group.transfers[0].end_s == group.arrival_s == group.commit_s
    assert_within_capacity(batch, [g.transfers[0] for g in shared.groups], shared.residual)


@given(batches())
@settings(max_examples=60, deadline=None)
def test_nothing_idles_that_could_be_used(batch):
    """Whenever an update is on its way, one of its links is full."""
    shared = plan_fair(replace(batch, delay_bound=None))
    path = batch.residual.network.topology.path
    transfers = [group.transfers[0] for group in shared.groups]
    pieces = carried(transfers, batch.residual.network.topology)
    instants = sorted({time for transfer in transfers for p in transfer.pieces for time in p[:2]})
    for group, transfer in zip(shared.groups, transfers, strict=True):
        for begin, end in pairwise(instants):
            middle = (begin + end) / 2
            if end - begin > 1e-6 and group.members[0].ready_s <= begin < group.arrival_s - 1e-6:
                assert any(
                    rate_of(pieces[link], middle)
                    >= batch.residual.profile(link).rate_at(middle) * (1 - 1e-6)
                    for link in path(transfer.src, transfer.dst)
                )


@given(batches())
@settings(max_examples=60, deadline=None)
def test_the_server_keeps_the_delay_bound_and_loses_no_update(batch):
    shared = plan_fair(batch)
    names = [g.members[0].id for g in shared.groups] + [d.update.id for d in shared.dropped]
    assert sorted(names) == sorted(update.id for update in batch.updates)
    assert [g.version_before for g in shared.groups] == [6 + i for i in range(len(shared.groups))]
    for before, group in zip((None, *shared.groups), shared.groups, strict=False):
        assert group.commit_s >= max(group.arrival_s, before.commit_s if before else 0.0)
        if batch.delay_bound is not None:
            assert group.version_before - group.members[0].version <= batch.delay_bound


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0, 40)), min_size=1, max_size=8), profiles()
)
@settings(deadline=None)
def test_time_sharing_a_bottleneck_is_never_later(sizes, bottleneck):
    """The last update arrives no later, nor do updates on average."""
    rates = {f"w{i}": 100.0 for i in range(len(sizes))} | {"s": bottleneck}
    updates = [Update(f"u{i}", f"w{i}", size, 0, ready) for i, (size, ready) in enumerate(sizes)]
    batch = make_batch(rates, updates, aggregation="none")
    timed, fair = plan(batch), plan_fair(batch)
    assert timed.mean_completion_s <= fair.mean_completion_s * (1 + 1e-9)
    assert timed.groups[-1].commit_s <= fair.groups[-1].commit_s * (1 + 1e-9)
