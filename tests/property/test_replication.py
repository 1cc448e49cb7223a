"""What must hold of a plan that a replica follows [paper, Fig. 3]."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlfabric.planning.planner import plan
from mlfabric.planning.replication import Replica, replicate
from tests.support.batches import (
    REPLICA,
    SERVER,
    assert_within_capacity,
    batches,
    bytes_of,
)

AGGREGATIONS = ("none", "paper", "refined", "pipelined")


BATCHES = batches(AGGREGATIONS)
UNBOUNDED = st.builds(Replica, st.just(REPLICA), st.just(math.inf), st.floats(0.0, 6.0))


@st.composite
def replicas(draw):
    """A replica within whose bound what is pending is."""
    pending, more = draw(st.floats(0.0, 3.0)), draw(st.floats(0.0, 4.0))
    return Replica(REPLICA, pending + more, pending)


def there_at(replicated):
    """When the replica has each update and all before it, from the transfers alone."""
    there, clock = {}, -math.inf
    for group in replicated.groups:
        clock = max(clock, *(t.end_s for t in group.transfers if t.dst == REPLICA))
        there |= {update.id: clock for update in group.members}
    return there


@given(BATCHES, replicas())
@settings(max_examples=100, deadline=None)
def test_divergence_is_within_the_bound_at_every_instant(batch, replica):
    replicated = replicate(batch, plan(batch), replica)
    there = there_at(replicated)
    committed = [(g.commit_s, u) for g in replicated.plan.groups for u in g.members]
    for instant, _ in committed:
        lacking = [u.norm for at, u in committed if at <= instant < there[u.id]]
        assert math.fsum([replica.pending_norm, *lacking]) <= replica.divergence_bound
    assert replica.pending_norm <= replicated.max_divergence <= replica.divergence_bound


@given(BATCHES, replicas())
@settings(max_examples=60, deadline=None)
def test_server_and_replica_commit_the_same_updates_in_the_same_order(batch, replica):
    planned = plan(batch)
    replicated = replicate(batch, planned, replica)
    order = [update for group in planned.groups for update in group.members]
    assert [u for g in replicated.plan.groups for u in g.members] == order
    assert [u for g in replicated.groups for u in g.members] == order
    shapes = [(g.members, g.via, g.version_before) for g in planned.groups]
    assert [(g.members, g.via, g.version_before) for g in replicated.plan.groups] == shapes
    starts = {g.version_before for g in planned.groups}
    assert all(group.version_before in starts for group in replicated.groups)
    commits = {u.id: g.commit_s for g in replicated.plan.groups for u in g.members}
    for group in replicated.groups:
        assert group.commit_s >= max(group.arrival_s, *(commits[u.id] for u in group.members))
    for groups in (replicated.plan.groups, replicated.groups):
        assert all(before.commit_s <= after.commit_s for before, after in pairwise(groups))
        assert all(group.commit_s >= group.arrival_s for group in groups)


@given(BATCHES, replicas())
@settings(max_examples=60, deadline=None)
def test_every_byte_comes_from_who_holds_it_and_fits_the_links(batch, replica):
    replicated = replicate(batch, plan(batch), replica)
    groups = (*replicated.plan.groups, *replicated.groups)
    transfers = [transfer for group in groups for transfer in group.transfers]
    assert_within_capacity(batch, transfers, replicated.plan.residual)
    updates = {update.id: update for update in batch.updates}
    for transfer in transfers:
        assert transfer.src != SERVER
        size = batch.sum_bytes([updates[name] for name in transfer.updates])
        assert bytes_of(transfer) == pytest.approx(size, rel=1e-6)
        assert transfer.pieces[0].start >= max(updates[u].ready_s for u in transfer.updates)


@given(BATCHES, replicas())
@settings(max_examples=60, deadline=None)
def test_a_sum_leaves_for_the_replica_when_all_of_it_is_there(batch, replica):
    replicated = replicate(batch, plan(batch), replica)
    transfers = [t for g in (*replicated.plan.groups, *replicated.groups) for t in g.transfers]
    updates = {update.id: update for update in batch.updates}
    for crossing in (t for group in replicated.groups for t in group.transfers):
        for name in crossing.updates:
            if updates[name].worker == crossing.src:
                continue
            came = [t.end_s for t in transfers if t.dst == crossing.src and name in t.updates]
            assert min(came) <= crossing.pieces[0].start + 1e-9


@given(BATCHES, replicas())
@settings(max_examples=60, deadline=None)
def test_the_replica_gets_every_update_in_one_transfer(batch, replica):
    planned = plan(batch)
    replicated = replicate(batch, planned, replica)
    names = [
        n for g in replicated.groups for t in g.transfers if t.dst == REPLICA for n in t.updates
    ]
    assert sorted(names) == sorted(u.id for g in planned.groups for u in g.members)


@given(BATCHES, UNBOUNDED)
@settings(max_examples=60, deadline=None)
def test_with_no_bound_the_server_does_not_notice_its_replica(batch, replica):
    planned = plan(batch)
    replicated = replicate(batch, planned, replica)
    assert replicated.plan.groups == planned.groups
