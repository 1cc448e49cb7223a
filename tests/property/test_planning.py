"""What must hold of every plan."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.bench import straightforward
from mlfabric.planning.aggregation import choose_aggregators, paper_groups
from mlfabric.planning.ordering import order
from mlfabric.planning.planner import plan
from tests.support.batches import (
    SERVER,
    assert_behind,
    assert_within_capacity,
    batches,
    bytes_of,
    shifted,
)

MODES = ("none", "paper", "refined", "pipelined")


@pytest.mark.parametrize("rule", ["shortest", "delay_aware"])
@given(batch=batches(MODES))
@settings(max_examples=60)
def test_every_update_is_kept_or_dropped_once_within_the_bound(rule, batch):
    result = plan(dataclasses.replace(batch, ordering=rule))
    kept = [u for group in result.groups for u in group.members]
    assert sorted(u.id for u in batch.updates) == sorted(
        [u.id for u in kept] + [d.update.id for d in result.dropped]
    )
    if batch.delay_bound is None:
        assert result.dropped == ()
        return
    for group in result.groups:
        assert all(group.version_before - u.version <= batch.delay_bound for u in group.members)
    assert all(d.delay > batch.delay_bound for d in result.dropped)


@given(batches(MODES))
def test_groups_commit_in_order_and_not_before_they_arrive(batch):
    result = plan(batch)
    version, clock = batch.version, 0.0
    for group in result.groups:
        assert group.version_before == version
        assert group.commit_s >= max(clock, group.arrival_s)
        version, clock = version + len(group.members), group.commit_s
    if batch.delay_bound is None:
        assert all(group.commit_s == group.arrival_s for group in result.groups)


@given(batches(MODES))
def test_no_link_is_ever_over_its_capacity(batch):
    result = plan(batch)
    transfers = [t for group in result.groups for t in group.transfers]
    assert_within_capacity(batch, transfers, result.residual)


@given(batches(MODES))
def test_every_transfer_carries_its_bytes_to_where_they_are_summed(batch):
    """Each member reaches the server exactly once, hop by hop, and never before it is ready."""
    by_id = {u.id: u for u in batch.updates}
    for group in plan(batch).groups:
        where = {u.id: u.worker for u in group.members}
        for transfer in group.transfers:
            members = [by_id[name] for name in transfer.updates]
            assert bytes_of(transfer) == pytest.approx(batch.sum_bytes(members), rel=1e-6)
            assert {where[u.id] for u in members} == {transfer.src}
            where.update(dict.fromkeys(transfer.updates, transfer.dst))
            own = [batch.ready_s(u) for u in members if u.worker == transfer.src]
            assert transfer.pieces[0].start >= max(own, default=0.0) - 1e-9
        assert set(where.values()) == {SERVER}
        assert group.arrival_s == group.transfers[-1].end_s
        assert (group.via is None) == (len(group.members) == 1)
        assert group.via is None or group.via in batch.aggregators
        assert group.transfers[-1].src == (group.via or group.members[0].worker)


@given(batches(("paper", "refined")))
def test_a_sum_leaves_an_aggregator_only_after_its_members_have_arrived(batch):
    for group in plan(batch).groups:
        *collecting, crossing = group.transfers
        ready = [t.end_s for t in collecting] + [batch.ready_s(u) for u in group.members]
        assert crossing.pieces[0].start >= max(ready) - 1e-9 or len(group.members) == 1


@given(batches(("pipelined",)))
@settings(max_examples=200)
def test_a_sum_is_passed_on_chunk_by_chunk(batch):
    """A host has passed on no share of a sum of which not all inputs had arrived, chunk and all."""
    for group in plan(batch).groups:
        for transfer in group.transfers:
            for below in (t for t in group.transfers if t.dst == transfer.src):
                assert_behind(transfer, below, batch.chunk_bytes)


@given(batches(("paper",)))
def test_more_freedom_never_means_a_later_mean(batch):
    """The paper's sums against sending all straight; a better search, and trees, against those."""
    none, paper, refined, pipelined = (
        plan(dataclasses.replace(batch, aggregation=mode)).mean_completion_s for mode in MODES
    )
    assert paper <= none * (1 + 1e-9)
    assert max(refined, pipelined) <= paper * (1 + 1e-9)


@pytest.mark.parametrize("rule", ["shortest", "delay_aware"])
@pytest.mark.parametrize("seconds", [-1000.0, 1e6])
@given(batch=batches(MODES))
@settings(max_examples=40)
def test_plans_do_not_depend_on_when_time_began(rule, seconds, batch):
    batch = dataclasses.replace(batch, ordering=rule)
    here, there = plan(batch), plan(shifted(batch, seconds))
    assert [d.update.id for d in there.dropped] == [d.update.id for d in here.dropped]
    if here.groups:
        expected = pytest.approx(here.mean_completion_s, rel=1e-6, abs=abs(seconds) * 1e-12)
        assert there.mean_completion_s - seconds == expected


@given(batches(("paper", "pipelined")), st.randoms(use_true_random=False))
def test_random_aggregators_give_the_same_plan_for_the_same_seed(batch, rng):
    seed = rng.random()
    first, second = (
        choose_aggregators(batch.aggregators, "random", random.Random(seed)) for _ in range(2)
    )
    assert first == second
    assert sorted(first) == sorted(batch.aggregators)
    plans = [plan(dataclasses.replace(batch, aggregators=hosts)) for hosts in (first, second)]
    assert plans[0].groups == plans[1].groups


@given(batches(MODES))
@settings(max_examples=40)
def test_planning_changes_nothing_and_repeats_itself(batch):
    before = batch.residual.profiles()
    first, second = plan(batch), plan(batch)
    assert (first.groups, first.dropped) == (second.groups, second.dropped)
    assert batch.residual.profiles() == before


@given(batches(("paper",)), st.sampled_from([0.0, 3.0, 10.0]), st.sampled_from([None, 5, 100]))
@settings(max_examples=300)
def test_the_straightforward_planner_comes_to_the_same(batch, busy_until_s, model_bytes):
    batch = dataclasses.replace(batch, busy_until_s=busy_until_s, model_bytes=model_bytes)
    shapes, dropped, mean_s = straightforward.plan(batch)
    ordering = order(batch)
    assert [d.update.id for d in ordering.dropped] == dropped
    if not ordering.kept:
        return
    (ours,) = paper_groups(batch, ordering.kept)
    assert [(tuple(u.id for u in s.members), s.via) for s in ours] == shapes
    result = plan(dataclasses.replace(batch, delay_bound=None, version=batch.version))
    if not dropped:
        arrivals = [g.arrival_s for g in result.groups for _ in g.members]
        assert sum(arrivals) / len(arrivals) == pytest.approx(mean_s)


@given(batches(("none",)), st.floats(0, 25))
def test_forgetting_the_past_changes_nothing_that_is_still_to_come(batch, now):
    residual = batch.residual.copy()
    residual.forget_before(now)
    for link, profile in batch.residual.profiles().items():
        later = residual.profile(link)
        assert all(t >= now for t in later.times[1:])
        for instant in np.linspace(now, 30, 7):
            assert later.rate_at(instant) == profile.rate_at(instant)
    for update in batch.updates:
        begin = max(update.ready_s, now)
        expected = batch.residual.finish(update.worker, SERVER, begin, update.bytes)
        assert residual.finish(update.worker, SERVER, begin, update.bytes) == expected < math.inf
