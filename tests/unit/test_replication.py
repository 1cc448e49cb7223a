"""A replica that follows the server within a bound, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mlfabric.errors import SettingError
from mlfabric.events import Update
from mlfabric.planning.grouping import direct, realize, summed
from mlfabric.planning.profile import Piece
from mlfabric.planning.replication import Replica, divergence, replicate
from tests.support.batches import make_batch


def two_direct(norms=(1.0, 1.0), replica_rate=1.0, **settings):
    """u1 and u2, 10 bytes each, at the server at 10 and 20; links of 1 byte/s but the replica's."""
    rates = {"s": 1, "r": replica_rate, "w1": 1, "w2": 1}
    updates = [Update(f"u{i}", f"w{i}", 10, 7, 0.0, norm) for i, norm in enumerate(norms, 1)]
    batch = make_batch(rates, updates, version=7, **settings)
    return batch, realize(batch, [direct(update, "s") for update in updates])


def crossings(replicated):
    """(updates, source, start, end) of every transfer to the replica."""
    return [
        (t.updates, t.src, t.pieces[0].start, t.end_s)
        for group in replicated.groups
        for t in group.transfers
        if t.dst == "r"
    ]


def commits(groups):
    return [("+".join(u.id for u in g.members), g.version_before, g.commit_s) for g in groups]


def test_without_a_limit_the_server_goes_on_as_planned_and_the_replica_follows_in_one_run():
    """w2 sends to the replica while w1 sends to the server, then w1 does: all is there at 20."""
    batch, plan = two_direct()
    replicated = replicate(batch, plan, Replica("r", math.inf))
    assert replicated.plan.groups == plan.groups
    assert crossings(replicated) == [(("u1",), "w1", 10, 20), (("u2",), "w2", 0, 10)]
    assert commits(replicated.groups) == [("u1+u2", 7, 20)]
    assert replicated.max_divergence == 1  # u1 from 10 to 20; u2 is there as it is committed


def test_the_server_waits_for_the_replica_where_the_next_group_would_break_the_bound():
    """The replica's link of 1/2 byte/s brings u1 from 10 to 30; u2 is at the server at 20.

    u2 goes to the replica in two parts: before 10, and from 30 on.
    """
    replicated = replicate(*two_direct(replica_rate=0.5), Replica("r", 1.5))
    assert commits(replicated.plan.groups) == [("u1", 7, 10), ("u2", 8, 30)]
    assert [group.arrival_s for group in replicated.plan.groups] == [10, 20]
    assert commits(replicated.groups) == [("u1", 7, 30), ("u2", 8, 40)]
    assert replicated.groups[1].transfers[0].pieces == (Piece(0, 10, 0.5), Piece(30, 40, 0.5))
    assert replicated.max_divergence == 1


def test_a_run_goes_before_the_group_that_waits_for_it():
    """Both updates are w1's: u1 to the server (10), to the replica (20), then u2 to each."""
    batch, _ = two_direct()
    updates = (batch.updates[0], batch.updates[1]._replace(worker="w1"))
    batch = replace(batch, updates=updates)
    plan = realize(batch, [direct(update, "s") for update in updates])
    replicated = replicate(batch, plan, Replica("r", 1.0))
    assert commits(replicated.plan.groups) == [("u1", 7, 10), ("u2", 8, 30)]
    assert commits(replicated.groups) == [("u1", 7, 20), ("u2", 8, 40)]


def test_a_group_beyond_the_bound_by_itself_is_committed_with_the_replica():
    replicated = replicate(*two_direct(norms=(5.0, 1.0)), Replica("r", 3.0, pending_norm=1.5))
    assert commits(replicated.plan.groups) == [("u1", 7, 20), ("u2", 8, 20)]
    assert commits(replicated.groups) == [("u1", 7, 20), ("u2", 8, 20)]
    assert replicated.max_divergence == 1.5  # only what was pending: u2 is at the replica at 10


def test_what_is_pending_leaves_less_room():
    batch, plan = two_direct()
    assert len(replicate(batch, plan, Replica("r", 2.0)).groups) == 1
    assert len(replicate(batch, plan, Replica("r", 2.0, pending_norm=0.5)).groups) == 2


def test_the_aggregator_sends_its_sum_on_when_it_has_all_of_it():
    """Collected at a from 0 to 20; the sum goes to the server until 30, to the replica until 40."""
    rates = {"s": 1, "r": 1, "w1": 1, "w2": 1, "a": 1}
    updates = [Update(f"u{i}", f"w{i}", 10, 0, 0.0, 1.0) for i in (1, 2)]
    batch = make_batch(rates, updates, aggregators=("a",))
    plan = realize(batch, [summed(updates, "a", "s")])
    replicated = replicate(batch, plan, Replica("r", 2.0))
    assert crossings(replicated) == [(("u1", "u2"), "a", 30, 40)]
    assert replicated.groups[0].via is None
    assert replicated.max_divergence == 2  # from 30 to 40


def three_direct(**settings):
    """u1, u2, u3 at the server at 10, 20, 30; 1/4 byte/s into the replica."""
    rates = {"s": 1, "r": 0.25, "w1": 1, "w2": 1, "w3": 1, "a": 1, "b": 1}
    updates = [Update(f"u{i}", f"w{i}", 10, 0, 0.0, 1.0) for i in (1, 2, 3)]
    batch = make_batch(rates, updates, **settings)
    return batch, realize(batch, [direct(update, "s") for update in updates])


def test_a_run_is_summed_at_an_idle_host_where_that_is_earlier():
    """30 bytes take 120 s into the replica. At b: u2 until 10, u1 until 20, u3 from 30 to 40 (its
    worker is sending to the server before); the sum's 10 bytes take 40 s more."""
    replicated = replicate(*three_direct(aggregators=("b",)), Replica("r", math.inf))
    (group,) = replicated.groups
    assert [(t.updates, t.dst, t.end_s) for t in group.transfers] == [
        (("u1",), "b", 20),
        (("u2",), "b", 10),
        (("u3",), "b", 40),
        (("u1", "u2", "u3"), "r", 80),
    ]
    assert (group.via, group.arrival_s, group.commit_s) == ("b", 80, 80)


def test_what_precedes_the_first_wait_stays_as_planned():
    """u1, at 1/2 byte/s, was reserved before u2 and ends after it; u2 alone would be there at 5."""
    batch, _ = two_direct()
    rates = {"s": 1, "r": 1, "w1": 0.5, "w2": 1}
    batch = replace(batch, residual=make_batch(rates, ()).residual)
    plan = realize(
        batch, [direct(batch.updates[0], "s"), direct(batch.updates[1]._replace(bytes=5), "s")]
    )
    assert commits(plan.groups) == [("u2", 7, 10), ("u1", 8, 20)]
    assert replicate(batch, plan, Replica("r", 2.0)).plan.groups == plan.groups


def test_a_chunked_sum_is_still_chunked_after_a_wait():
    """u1 is at the server at 10, at the replica at 20. u2 and u3 reach a side by side until 20, at
    1/2 byte/s in chunks of 1 byte; without chunks their sum would cross from 20 to 30."""
    rates = {"s": 1, "r": 1, "w1": 1, "w2": 0.5, "w3": 0.5, "a": 1}
    updates = [Update(f"u{i}", f"w{i}", 10, 0, 0.0, 1.0) for i in (1, 2, 3)]
    batch = make_batch(rates, updates, aggregators=("a",), chunk_bytes=1)
    shape = replace(summed(updates[1:], "a", "s"), chunked=True)
    plan = realize(batch, [direct(updates[0], "s"), shape])
    replicated = replicate(batch, plan, Replica("r", 2.0))
    assert [len(group.members) for group in replicated.groups] == [1, 2]
    assert replicated.plan.groups[1].arrival_s == plan.groups[1].arrival_s < 22
    assert crossings(replicated)[1][:3] == (("u2", "u3"), "a", replicated.plan.groups[1].arrival_s)


def test_a_host_sums_the_next_run_when_the_last_one_has_left():
    """Runs of three: the first is at the replica at 80 as above, its sum then leaves b."""
    batch, _ = three_direct(aggregators=("b",))
    more = [u._replace(id=f"{u.id}'", ready_s=30.0) for u in batch.updates]
    batch = replace(batch, updates=(*batch.updates, *more))
    plan = realize(batch, [direct(update, "s") for update in batch.updates])
    first, second = replicate(batch, plan, Replica("r", 3.0)).groups
    assert (first.via, first.arrival_s, second.via) == ("b", 80, "b")
    assert min(t.pieces[0].start for t in second.transfers) == 80
    assert second.arrival_s == 150  # collected by three workers through b's one link until 110


@pytest.mark.parametrize("aggregators", [("s",), ("r",)])
def test_neither_the_server_nor_the_replica_sums_for_the_replica(aggregators):
    replicated = replicate(*three_direct(aggregators=aggregators), Replica("r", math.inf))
    assert replicated.groups[0].via is None


def test_a_single_update_is_never_sent_through_another_host():
    replicated = replicate(*three_direct(aggregators=("b",)), Replica("r", 1.0))
    assert [group.via for group in replicated.groups] == [None, None, None]


def summed_last(reuse):
    """u1, u2, u3 direct, then u4 + u5 summed at a; the replica may lag behind by three updates."""
    batch, _ = three_direct()
    more = [Update(f"u{i}", f"w{i - 3}", 10, 0, 0.0, 1.0) for i in (4, 5)]
    batch = replace(batch, updates=(*batch.updates, *more), aggregators=("a",), reuse=reuse)
    shapes = [direct(update, "s") for update in batch.updates[:3]]
    return batch, realize(batch, [*shapes, summed(more, "a", "s")])


def test_a_host_that_sums_for_the_server_later_is_not_idle():
    replicated = replicate(*summed_last(reuse=True), Replica("r", 3.0))
    assert [len(group.members) for group in replicated.groups] == [3, 2]
    assert replicated.groups[0].via is None


@pytest.mark.parametrize(("reuse", "via"), [(True, "a"), (False, None)])
def test_a_host_whose_sum_has_left_may_sum_again(reuse, via):
    batch, plan = summed_last(reuse)
    (group,) = replicate(batch, plan, Replica("r", math.inf)).groups
    assert group.via == via
    if via:
        left = plan.groups[-1].arrival_s
        assert all(t.pieces[0].start >= left for t in group.transfers)


def test_the_batch_and_the_plan_stay_as_they_are():
    batch, plan = two_direct()
    before = batch.residual.profiles(), plan.residual.profiles()
    replicate(batch, plan, Replica("r", 1.0))
    assert (batch.residual.profiles(), plan.residual.profiles()) == before


def test_an_empty_plan_has_nothing_to_replicate():
    batch, _ = two_direct()
    replicated = replicate(batch, realize(batch, []), Replica("r", 3.0, pending_norm=0.5))
    assert (replicated.plan.groups, replicated.groups) == ((), ())
    assert replicated.max_divergence == 0.5


def test_more_pending_than_the_bound_allows_is_refused():
    with pytest.raises(SettingError) as refused:
        Replica("r", 3.0, pending_norm=4.0)
    assert str(refused.value) == ("replica.pending_norm: 4.0: must be at most divergence_bound 3.0")


def test_divergence_counts_what_the_replica_lacks():
    """At 3 it lacks all of 1 + 2 + 3, beside 0.5 that it lacked before."""
    assert divergence([1, 2, 3], [4, 4, 4], [1.0, 2.0, 3.0], 0.5) == 6.5


def test_at_one_instant_the_replica_comes_first():
    assert divergence([1, 2], [2, 3], [4.0, 3.0], 0.0) == 4


def test_an_update_that_the_replica_has_already_does_not_count():
    assert divergence([5], [3], [1.0], 0.0) == 0
