"""The paper's figures 4 to 6 as small cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlfabric.events import Update
from mlfabric.planning.ordering import order
from mlfabric.planning.planner import plan
from mlfabric.planning.profile import Profile
from mlfabric.topology import Link, Topology
from tests.support.batches import SERVER, make_batch

MB = 1_000_000.0
MBIT = MB / 8


def test_fig4_thirty_megabytes_end_at_seven():
    """10 MB/s for 1 s, 2 MB/s for 4 s, 6 MB/s after: 10 + 8 + 12 = 30 MB at t = 7."""
    profile = Profile((0.0, 1.0, 5.0), (10 * MB, 2 * MB, 6 * MB))
    residual = make_batch({"w1": profile, SERVER: 100 * MB}, []).residual
    assert residual.finish("w1", SERVER, 0.0, 30 * MB) == pytest.approx(7.0)
    residual.reserve("w1", SERVER, 0.0, 30 * MB)
    assert residual.profile(Link("w1", "egress")) == Profile((0.0, 7.0), (0.0, 6 * MB))
    left = residual.profile(Link(SERVER, "ingress"))
    assert [left.rate_at(t) / MB for t in (0.5, 3.0, 6.0, 7.5)] == [90.0, 98.0, 94.0, 100.0]


def fig5(bound):
    """g1 behind 10 Mbit/s needs 10 s; g2 and g3 have 100 Mbit/s and need 1 s each."""
    rates = {SERVER: 100 * MBIT, "w1": 10 * MBIT, "w2": 100 * MBIT, "w3": 100 * MBIT}
    gradients = [Update(f"g{i}", f"w{i}", int(10 * 10 * MBIT), 5, 0.0) for i in (1, 2, 3)]
    return make_batch(rates, gradients, version=5, delay_bound=bound)


def test_fig5_an_update_behind_a_slow_link_is_dropped_before_it_is_sent():
    """The others pass g1, whose delay would then be 2: it is dropped."""
    batch = fig5(bound=1)
    assert batch.residual.finish("w1", SERVER, 0.0, batch.updates[0].bytes) == pytest.approx(10.0)
    result = plan(batch)
    assert [u.id for g in result.groups for u in g.members] == ["g2", "g3"]
    assert [(d.update.id, d.delay) for d in result.dropped] == [("g1", 2)]
    assert [g.commit_s for g in result.groups] == pytest.approx([1.0, 2.0])


def test_fig5_without_a_bound_it_is_sent_beside_the_others():
    """g2 until 1 s, g3 until 2 s; the server's link is full meanwhile: g1 goes from 2 s to 12 s."""
    assert [g.commit_s for g in plan(fig5(bound=None)).groups] == pytest.approx([1.0, 2.0, 12.0])


def test_fig6_groups():
    """G1 = u1 u2 u3 direct, G2 = u4 u5 summed, u6 opens G3.

    Equal links of 1 byte/s. u1..u3 (2 bytes each) take the server's until t = 6. At an idle host
    u4 and u5 (3 bytes each) are collected by t = 6; u6 (3 bytes) would end at 9.
    """
    hosts = dict.fromkeys((SERVER, "idle1", "w1", "w2", "w3", "w4", "w5", "w6"), 1.0)
    sizes = {"u1": 2, "u2": 2, "u3": 2, "u4": 3, "u5": 3, "u6": 3}
    updates = [Update(u, f"w{u[1:]}", size, 0, 0.0) for u, size in sizes.items()]
    result = plan(make_batch(hosts, updates, aggregators=("idle1",)))
    assert [([u.id for u in g.members], g.via) for g in result.groups] == [
        (["u1"], None),
        (["u2"], None),
        (["u3"], None),
        (["u4", "u5"], "idle1"),
        (["u6"], None),
    ]
    assert [g.commit_s for g in result.groups] == pytest.approx([2.0, 4.0, 6.0, 9.0, 12.0])
    assert [g.version_before for g in result.groups] == [0, 1, 2, 3, 5]
    assert result.mean_completion_s == pytest.approx((2 + 4 + 6 + 9 + 9 + 12) / 6)


def test_an_aggregator_collects_again_once_its_sum_has_left():
    """Nine updates of 1 byte; every link carries 1 byte/s, those of the idle hosts 2.

    u1 straight, until 1 s. By then idle1 has two more, whose sum crosses until 2 s; by then idle2
    has four, until 3 s. idle1 is free again at 2 s and has the last two at 3 s: they end at 4 s.
    Without reuse these go straight, until 4 s and 5 s.
    """
    rates = {SERVER: 1.0, "idle1": 2.0, "idle2": 2.0, **{f"w{i}": 1.0 for i in range(1, 10)}}
    updates = [Update(f"u{i}", f"w{i}", 1, 0, 0.0) for i in range(1, 10)]
    batch = make_batch(rates, updates, aggregators=("idle1", "idle2"))
    groups = [(len(g.members), g.via, g.commit_s) for g in plan(batch).groups]
    assert groups == [(1, None, 1.0), (2, "idle1", 2.0), (4, "idle2", 3.0), (2, "idle1", 4.0)]
    once = [(len(g.members), g.via, g.commit_s) for g in plan(replace(batch, reuse=False)).groups]
    assert once == [*groups[:3], (1, None, 4.0), (1, None, 5.0)]


def test_ties_keep_the_input_order():
    rates = {SERVER: 1.0, "a": 1.0, "b": 1.0, "c": 1.0}
    updates = [Update(n, n, 1, 0, 0.0) for n in ("c", "a", "b")]
    assert [u.id for u in order(make_batch(rates, updates)).kept] == ["c", "a", "b"]


def test_sums_made_inside_a_rack_cross_its_narrow_uplink_once():
    """w1 and w2 in rack r (uplink 1 byte/s), everything else 2 bytes/s; 2 bytes each.

    Straight: until 2 s and 4 s through the uplink. Pipelined over w1: its first chunk (1 byte) of
    u2 is there at 0.5 s; the sum crosses the uplink from then on, until 2.5 s.
    """
    rates = {SERVER: 2.0, "w1": 2.0, "w2": 2.0, "r": 1.0}
    updates = [Update("u1", "w1", 2, 0, 0.0), Update("u2", "w2", 2, 0, 0.0)]
    settings = {"topology": Topology({"w1": "r", "w2": "r"}), "chunk_bytes": 1}
    direct = plan(make_batch(rates, updates, aggregation="none", **settings))
    assert [g.commit_s for g in direct.groups] == pytest.approx([2.0, 4.0])
    piped = plan(
        make_batch(rates, updates, aggregation="pipelined", aggregators=("w1",), **settings)
    )
    assert [([u.id for u in g.members], g.via, g.commit_s) for g in piped.groups] == [
        (["u1", "u2"], "w1", pytest.approx(2.5))
    ]


def hasty(size):
    """`late` was computed from version 9, the others from 10; bound 1; links of 1 byte/s."""
    rates = dict.fromkeys((SERVER, "w1", "w2", "w3"), 1.0)
    updates = [Update("a", "w1", 2, 10, 0.0), Update("b", "w2", 2, 11, 0.0)]
    updates.append(Update("late", "w3", size, 9, 0.0))
    return make_batch(rates, updates, version=10, delay_bound=1)


def test_an_update_without_slack_stays_behind_where_the_others_would_lose_as_much():
    """Plain: a until 2 s, b until 4 s, and `late` (3 bytes), whose delay would be 3, is dropped.

    That counts as 2 + 4 + (4 + 3) = 13 s. `late` first: 3, 5, and b at 7 s, 15 s: no gain. Smaller
    by a byte it ties with a and b: dropped it counts 2 + 4 + 6 = 12, first 2 + 4 + 6 as well.
    """
    for size in (2, 3):
        plain = plan(hasty(size))
        assert [d.update.id for d in plain.dropped] == ["late"]
        aware = plan(replace(hasty(size), ordering="delay_aware"))
        assert (aware.groups, aware.dropped) == (plain.groups, plain.dropped)


def test_an_update_without_slack_goes_first_where_that_costs_less_than_it_gains():
    """`late` (9 bytes at 3 bytes/s) and a (2 bytes at 1 byte/s) fit beside each other: 4 bytes/s.

    Plain: a until 2 s; `late` would then be 2 versions late, bound 1: dropped, counted as sent
    after: 2 + (2 + 3) = 7 s. `late` first: 3 s, and a, there at 2 s, is held until 3 s: 6 s.
    """
    rates = {SERVER: 4.0, "w1": 1.0, "w3": 3.0}
    updates = [Update("a", "w1", 2, 10, 0.0), Update("late", "w3", 9, 9, 0.0)]
    batch = make_batch(rates, updates, version=10, delay_bound=1)
    plain, aware = plan(batch), plan(replace(batch, ordering="delay_aware"))
    assert [d.update.id for d in plain.dropped] == ["late"]
    assert aware.dropped == ()
    assert [([u.id for u in g.members], g.commit_s) for g in aware.groups] == [
        (["late"], 3.0),
        (["a"], 3.0),
    ]
