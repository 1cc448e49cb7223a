"""Max-min fair sharing, worked out by hand."""

from __future__ import annotations

import math

import pytest

from mlfabric.events import Update
from mlfabric.planning.profile import Piece, Profile
from mlfabric.planning.sharing import fair_rates, plan_fair
from mlfabric.topology import Link, Topology
from tests.support.batches import make_batch

FAST = 100.0
INTO_SERVER = Link("s", "ingress")


def three(versions=(10, 10, 10), **settings):
    """10, 20 and 30 bytes through a server link of 1 byte/s, ready at 0.

    Thirds until u1 has 10 bytes at 30; halves until u2 has its other 10 at 50; u3's last 10 alone.
    """
    rates = {"w1": FAST, "w2": FAST, "w3": FAST, "s": 1.0}
    updates = [
        Update(f"u{i}", f"w{i}", 10 * i, version, 0.0) for i, version in enumerate(versions, 1)
    ]
    return make_batch(rates, updates, version=10, **settings)


def commits(plan):
    return [(group.members[0].id, pytest.approx(group.commit_s)) for group in plan.groups]


def test_a_flow_gets_what_the_others_at_its_link_cannot_use():
    """Link 1 (3 bytes/s) gives 1.5 to both of its flows; link 0 (10) leaves 8.5 to the other."""
    assert fair_rates([(0,), (0, 1), (1,)], [10.0, 3.0]) == [8.5, 1.5, 1.5]


def test_a_flow_that_crosses_nothing_is_not_limited():
    assert fair_rates([(), (0,)], [4.0]) == [math.inf, 4.0]


def test_a_link_without_bandwidth_stops_only_its_own_flows():
    assert fair_rates([(0, 1), (0,)], [4.0, 0.0]) == [0.0, 4.0]


def test_updates_share_the_bottleneck_and_speed_up_as_others_end():
    plan = plan_fair(three())
    assert commits(plan) == [("u1", 30), ("u2", 50), ("u3", 60)]
    assert [group.version_before for group in plan.groups] == [10, 11, 12]
    (transfer,) = plan.groups[2].transfers
    assert (transfer.updates, transfer.src, transfer.dst) == (("u3",), "w3", "s")
    expected = [(0, 30, 1 / 3), (30, 50, 1 / 2), (50, 60, 1)]
    assert [pytest.approx(piece) for piece in expected] == list(transfer.pieces)


def test_an_update_that_is_ready_later_joins_in():
    """u1 has 5 of 10 bytes at 5; both at 1/2 until u1 ends at 15, u2 has 5 of 8, and ends at 18."""
    updates = [Update("u1", "w1", 10, 0, 0.0), Update("u2", "w2", 8, 0, 5.0)]
    plan = plan_fair(make_batch({"w1": FAST, "w2": FAST, "s": 1.0}, updates))
    assert commits(plan) == [("u1", 15), ("u2", 18)]


def test_rates_follow_the_profiles_and_equal_neighbors_are_one_piece():
    """2 bytes/s, from 5 on 1: 10 bytes at 5, 20 at 15; the worker's change at 3 is no news."""
    rates = {"w1": Profile((0.0, 3.0), (9.0, 8.0)), "s": Profile((0.0, 5.0), (2.0, 1.0))}
    plan = plan_fair(make_batch(rates, [Update("u1", "w1", 20, 0, 0.0)]))
    assert plan.groups[0].transfers[0].pieces == (Piece(0.0, 5.0, 2.0), Piece(5.0, 15.0, 1.0))


def test_an_uplink_is_shared_by_its_rack_alone():
    """w1 and w2 share 1 byte/s of their rack, w3 has the rest of the server's 3: 2 bytes/s."""
    rates = {"w1": FAST, "w2": FAST, "w3": FAST, "s": 3.0, "rack": 1.0}
    updates = [Update(f"u{i}", f"w{i}", size, 0, 0.0) for i, size in ((1, 5), (2, 5), (3, 20))]
    plan = plan_fair(make_batch(rates, updates, Topology({"w1": "rack", "w2": "rack"})))
    assert commits(plan) == [("u1", 10), ("u2", 10), ("u3", 10)]


def test_an_update_behind_a_dead_link_never_arrives():
    updates = [Update("u1", "w1", 5, 0, 0.0), Update("u2", "w2", 5, 0, 0.0)]
    plan = plan_fair(make_batch({"w1": 0.0, "w2": FAST, "s": 1.0}, updates))
    assert [group.commit_s for group in plan.groups] == [5.0, math.inf]
    assert plan.groups[1].transfers[0].pieces == (Piece(5.0, math.inf, 0.0),)


def test_the_server_holds_updates_back_for_one_that_cannot_wait():
    """Bound 2: u3, of version 8, has to be the next version; u1 and u2 wait until it is there."""
    plan = plan_fair(three((10, 10, 8), delay_bound=2))
    assert commits(plan) == [("u3", 60), ("u1", 60), ("u2", 60)]
    assert [group.arrival_s for group in plan.groups] == [pytest.approx(t) for t in (60, 30, 50)]


def test_as_many_go_first_as_the_one_on_its_way_can_bear():
    plan = plan_fair(three((10, 10, 9), delay_bound=2))
    assert commits(plan) == [("u1", 30), ("u3", 60), ("u2", 60)]


def test_what_is_too_late_in_any_order_is_dropped_but_has_used_the_link():
    """Bound 2: u2 and u3, of version 8, both need to be next; u3 comes later, with delay 3."""
    plan = plan_fair(three((10, 8, 8), delay_bound=2))
    assert [(d.update.id, d.delay) for d in plan.dropped] == [("u3", 3)]
    assert commits(plan) == [("u2", 50), ("u1", 50)]
    assert plan.residual.first_time_at(INTO_SERVER, 1.0, 0.0) == pytest.approx(60)


def test_the_residual_is_what_is_left_and_the_batch_keeps_its_own():
    batch = three()
    before = batch.residual.profiles()
    left = plan_fair(batch).residual
    assert batch.residual.profiles() == before
    assert left.profile(INTO_SERVER).rate_at(59.9) == 0
    assert left.profile(INTO_SERVER).rate_at(60.1) == 1
    assert left.profile(Link("w2", "egress")).rates == pytest.approx((100 - 1 / 3, 99.5, 100))
    assert left.profile(Link("w2", "egress")).times == pytest.approx((0, 30, 50))


def test_a_full_link_has_nothing_left_whatever_its_shares_add_up_to():
    """Ten times 1/10 byte/s, which add up to 0.9999999999999999."""
    rates = {f"w{i}": FAST for i in range(10)} | {"s": 1.0}
    updates = [Update(f"u{i}", f"w{i}", 1, 0, 0.0) for i in range(10)]
    left = plan_fair(make_batch(rates, updates)).residual.profile(INTO_SERVER)
    assert (left.times, left.rates) == ((0.0, pytest.approx(10)), (0.0, 1.0))


def test_a_link_has_exactly_its_bandwidth_again_when_all_has_crossed():
    """Shares of 0.3 byte/s that end one after another leave 0.30000000000000004 when added up."""
    rates = {"w1": 1.0, "w2": 0.3, "w3": 1.0, "w4": 0.1, "s": 0.3}
    updates = [Update(f"u{i}", f"w{i}", n, 0, 0.0) for i, n in ((1, 4), (2, 6), (3, 1), (4, 9))]
    assert plan_fair(make_batch(rates, updates)).residual.profile(INTO_SERVER).rates[-1] == 0.3


def test_arrivals_that_differ_by_rounding_are_at_one_instant():
    """3 bytes at 0.3 and 1 at 0.1 byte/s: ready at 1, both are there at 11, in input order."""
    rates = {"w1": 0.1, "w2": 0.3, "w3": 0.1, "s": 1.0}
    sizes = (("u1", "w1", 3, 2.0), ("u2", "w2", 3, 1.0), ("u3", "w3", 1, 1.0))
    updates = [Update(name, worker, size, 0, ready) for name, worker, size, ready in sizes]
    plan = plan_fair(make_batch(rates, updates))
    assert commits(plan) == [("u2", 11), ("u3", 11), ("u1", 32)]
    assert plan.groups[0].commit_s == plan.groups[1].commit_s


def test_an_update_that_is_on_the_server_s_host_crosses_nothing():
    updates = [Update("u1", "w1", 5, 0, 0.0), Update("u2", "s", 5, 0, 2.0)]
    plan = plan_fair(make_batch({"w1": FAST, "s": 1.0}, updates))
    assert commits(plan) == [("u2", 2), ("u1", 5)]
    assert [group.transfers[0].pieces for group in plan.groups] == [(), ((0.0, 5.0, 1.0),)]


def test_a_transfer_too_short_for_the_clock_still_has_an_end():
    """A nanosecond after two thousand million seconds is none in double precision."""
    updates = [Update("u1", "w1", 1, 0, 2e9)]
    (group,) = plan_fair(make_batch({"w1": 1e9, "s": 1e9}, updates)).groups
    assert group.arrival_s == group.transfers[0].end_s == 2e9


def test_an_empty_batch_is_an_empty_plan():
    assert plan_fair(make_batch({"s": 1.0}, [])).groups == ()
