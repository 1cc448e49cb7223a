"""The network of flows on scenes that can be worked out by hand: bytes, bytes/s and seconds."""

from __future__ import annotations

import math

import pytest

from mlfabric.engines.virtual.fabric import Fabric
from mlfabric.errors import SettingError
from mlfabric.topology import Link, Topology

OUT = {name: Link(name, "egress") for name in "abcd"}
IN = {name: Link(name, "ingress") for name in "abcd"}


def hosts(rate=10.0, **options):
    return Fabric(dict.fromkeys([*OUT.values(), *IN.values()], rate), **options)


def to_end(fabric):
    """All ends and marks: (time, flow, whether it is the end)."""
    seen = []
    while fabric.next_s() < math.inf:
        now = fabric.next_s()
        seen += [(pytest.approx(now), *report) for report in fabric.advance(now)]
        assert len(seen) < 100
    return seen


def test_two_share_a_link_and_a_third_elsewhere_has_its_own():
    fabric = hosts()
    one = fabric.start([OUT["a"], IN["c"]], 100, 0.0)
    two = fabric.start([OUT["b"], IN["c"]], 50, 0.0)
    three = fabric.start([OUT["c"], IN["d"]], 100, 0.0)
    assert [fabric.rate(flow) for flow in (one, two, three)] == [5.0, 5.0, 10.0]
    assert fabric.moved(one, 4.0) == 20.0
    assert to_end(fabric) == [(10.0, two, True), (10.0, three, True), (15.0, one, True)]


def test_what_a_slow_sender_leaves_goes_to_the_others():
    fabric = hosts()
    fabric.set_rate(OUT["a"], 2.0, 0.0)
    one = fabric.start([OUT["a"], IN["c"]], 100, 0.0)
    two = fabric.start([OUT["b"], IN["c"]], 100, 0.0)
    assert (fabric.rate(one), fabric.rate(two)) == (2.0, 8.0)


def test_a_link_that_changes_while_bytes_are_on_their_way():
    fabric = hosts()
    flow = fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    fabric.set_rate(OUT["a"], 0.0, 4.0)
    assert fabric.next_s() == math.inf
    fabric.set_rate(OUT["a"], 5.0, 6.0)
    assert fabric.moved(flow, 6.0) == 40.0
    assert to_end(fabric) == [(18.0, flow, True)]


def test_a_chain_forwards_with_a_lag():
    fabric = hosts()
    first = fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    second = fabric.start([OUT["b"], IN["c"]], 100, 0.0, behind=[first], lag_bytes=10)
    third = fabric.start([OUT["c"], IN["d"]], 100, 0.0, behind=[second], lag_bytes=10)
    assert to_end(fabric) == [(10.0, first, True), (11.0, second, True), (12.0, third, True)]


def test_who_joins_late_catches_up_and_then_keeps_pace():
    fabric = hosts()
    fabric.set_rate(OUT["a"], 2.0, 0.0)
    first = fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    second = fabric.start([OUT["b"], IN["c"]], 100, 20.0, behind=[first])
    assert fabric.rate(second) == 10.0
    assert fabric.advance(fabric.next_s()) == []  # caught up after 5 s, at 50 bytes
    assert fabric.rate(second) == 2.0
    assert fabric.moved(second, 25.0) == pytest.approx(50.0)
    assert to_end(fabric) == [(50.0, first, True), (50.0, second, True)]


@pytest.mark.parametrize(("size", "rate"), [(50, 5.0), (200, 10.0)])
def test_an_input_of_another_size_counts_by_its_share(size, rate):
    fabric = hosts()
    first = fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    second = fabric.start([OUT["b"], IN["c"]], size, 0.0, behind=[first])
    assert (fabric.rate(first), fabric.rate(second)) == (10.0, rate)
    assert to_end(fabric) == [(10.0, first, True), (size / rate, second, True)]


def test_what_a_caught_up_flow_does_not_take_goes_to_the_others():
    fabric = hosts()
    fabric.set_rate(OUT["a"], 2.0, 0.0)
    first = fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    second = fabric.start([OUT["b"], IN["c"]], 100, 0.0, behind=[first])
    other = fabric.start([OUT["d"], IN["c"]], 100, 0.0)
    assert (fabric.rate(second), fabric.rate(other)) == (2.0, 8.0)


def test_a_sum_goes_as_fast_as_its_slowest_input():
    fabric = hosts()
    fabric.set_rate(OUT["b"], 1.0, 0.0)
    inputs = [fabric.start([OUT[name], IN["c"]], 20, 0.0) for name in "ab"]
    total = fabric.start([OUT["c"], IN["d"]], 20, 0.0, behind=inputs)
    assert fabric.rate(total) == 1.0
    ended = [flow for _, flow, _ in to_end(fabric)]
    assert ended == [*inputs, total]


def test_nothing_comes_after_a_cancelled_input():
    fabric = hosts()
    first = fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    second = fabric.start([OUT["b"], IN["c"]], 100, 0.0, behind=[first], lag_bytes=10)
    third = fabric.start([OUT["c"], IN["d"]], 100, 0.0, behind=[second])
    assert fabric.advance(fabric.next_s()) == []  # the lag is over
    assert fabric.cancel(first, 5.0) == pytest.approx(50.0)
    assert to_end(fabric) == []
    assert fabric.moved(second, 100.0) == fabric.moved(third, 100.0) == pytest.approx(40.0)
    assert fabric.cancel(second, 100.0) == pytest.approx(40.0)
    assert fabric.cancel(third, 100.0) == pytest.approx(40.0)


def test_a_cancelled_flow_leaves_its_share():
    fabric = hosts()
    one = fabric.start([OUT["a"], IN["c"]], 100, 0.0)
    two = fabric.start([OUT["b"], IN["c"]], 100, 0.0)
    assert fabric.cancel(one, 4.0) == 20.0
    assert to_end(fabric) == [(12.0, two, True)]


def test_in_order_a_later_flow_has_what_is_left():
    fabric = hosts(in_order=True)
    fabric.set_rate(OUT["b"], 4.0, 0.0)
    first = fabric.start([OUT["b"], IN["c"]], 40, 0.0)
    second = fabric.start([OUT["a"], IN["c"]], 100, 0.0)
    third = fabric.start([OUT["a"], IN["d"]], 100, 0.0)
    fourth = fabric.start([OUT["d"], IN["c"]], 10, 0.0)
    assert [fabric.rate(f) for f in (first, second, third, fourth)] == [4.0, 6.0, 4.0, 0.0]
    assert to_end(fabric)[:2] == [(10.0, first, True), (14.0, second, True)]


def test_racks_share_their_uplinks():
    racks = Topology({"a": "r1", "b": "r1", "c": "r2", "d": "r2"})
    up = [Link("r1", "up"), Link("r2", "down"), Link("r2", "up"), Link("r1", "down")]
    fabric = Fabric(dict.fromkeys([*OUT.values(), *IN.values()], 10.0) | dict.fromkeys(up, 6.0))
    across = [fabric.start(racks.path(*pair), 60, 0.0) for pair in (("a", "c"), ("b", "d"))]
    within = fabric.start(racks.path("a", "b"), 70, 0.0)
    assert [fabric.rate(flow) for flow in (*across, within)] == [3.0, 3.0, 7.0]
    assert to_end(fabric) == [(10.0, within, True), *((20.0, flow, True) for flow in across)]


def test_marks_are_reported_before_the_end():
    fabric = hosts()
    flow = fabric.start([OUT["a"], IN["b"]], 100, 0.0, mark=30)
    other = fabric.start([OUT["c"], IN["d"]], 100, 0.0, mark=1000)
    assert fabric.advance(3.0) == [(flow, False)]
    fabric.set_mark(flow, 50, 3.0)
    assert to_end(fabric) == [(5.0, flow, False), (10.0, flow, True), (10.0, other, True)]


def test_a_flow_without_links_ends_at_once_or_with_its_inputs():
    fabric = hosts()
    alone = fabric.start([], 5, 1.0)
    assert fabric.next_s() == 1.0
    assert fabric.advance(1.0) == [(alone, True)]
    first = fabric.start([OUT["a"], IN["b"]], 100, 1.0)
    local = fabric.start([], 50, 1.0, behind=[first])
    empty = fabric.start([OUT["c"], IN["d"]], 0, 1.0, behind=[first])
    assert fabric.moved(local, 2.0) == pytest.approx(5.0)
    assert to_end(fabric) == [(11.0, first, True), (11.0, local, True), (11.0, empty, True)]


def test_numbers_are_used_again_but_not_among_the_reports_of_one_call():
    fabric = hosts()
    ended = [fabric.start([OUT[n], IN["d"]], 10, 0.0) for n in "abc"]
    now = fabric.next_s()
    assert [flow for flow, _ in fabric.advance(now)] == ended
    fresh = [fabric.start([OUT[n], IN["d"]], 10, now) for n in "abc"]
    assert not set(fresh) & set(ended)
    fabric.advance(fabric.next_s())
    assert fabric.start([OUT["a"], IN["b"]], 1, now + 3) in ended


def test_a_change_touches_only_what_it_may_affect():
    fabric = hosts()
    for _ in range(20):
        fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    fabric.next_s()
    before = fabric.touched
    flow = fabric.start([OUT["c"], IN["d"]], 5, 0.0)
    fabric.next_s()
    fabric.cancel(flow, 0.1)
    fabric.next_s()
    assert fabric.touched == before + 1
    slow = fabric.start([OUT["c"], IN["b"]], 5, 0.1)
    fabric.next_s()
    assert fabric.touched == before + 1 + 21
    fabric.set_rate(OUT["c"], 8.0, 0.2)  # neither full before nor after
    fabric.next_s()
    assert fabric.touched == before + 1 + 21
    assert fabric.rate(slow) == pytest.approx(10 / 21)


def test_all_changes_at_one_time_are_followed_by_one_computation():
    fabric = hosts()
    for _ in range(100):
        fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    fabric.next_s()
    assert fabric.touched == 100


def test_a_flow_over_two_thousand_links():
    ring = [Link(f"w{i}", way) for i in range(1000) for way in ("egress", "ingress")]
    fabric = Fabric(dict.fromkeys(ring, 10.0) | {ring[700]: 3.0})
    flow = fabric.start(ring, 30, 0.0)
    assert to_end(fabric) == [(10.0, flow, True)]


def test_the_clock_passes_nothing_that_is_due():
    fabric = hosts()
    flow = fabric.start([OUT["a"], IN["b"]], 100, 0.0)
    with pytest.raises(ValueError, match=r"now=11\.0: allowed is 0\.0 to 10\.0"):
        fabric.cancel(flow, 11.0)
    fabric.advance(10.0)
    with pytest.raises(ValueError, match=r"now=9\.0"):
        fabric.start([], 1, 9.0)


@pytest.mark.parametrize("rate", [-1.0, math.nan, math.inf])
def test_a_capacity_is_a_number_from_0_on(rate):
    with pytest.raises(SettingError, match="allowed are numbers from 0 on"):
        hosts(rate)
    with pytest.raises(SettingError, match="allowed are numbers from 0 on"):
        hosts().start([], rate, 0.0)


@pytest.mark.parametrize("now", [0.0, 1e9, 1e12])
def test_events_make_progress_however_late_it_is(now):
    """A clock of so many digits cannot tell what happens within its last one."""
    fabric = hosts(1e9 / 7)
    first = fabric.start([OUT["a"], IN["b"]], 1e5, now, mark=3e4)
    second = fabric.start([OUT["b"], IN["c"]], 1e5 / 3, now, behind=[first], lag_bytes=100)
    third = fabric.start([OUT["a"], IN["c"]], 1e5, now, behind=[second])
    assert [flow for _, flow, ended in to_end(fabric) if ended] == [first, second, third]


def test_many_links_set_at_once_where_one_has_flows_that_meet_nowhere_else():
    """Rates stay; what was cancelled at that time is not heard of again."""
    links = [Link(f"h{i}", "egress") for i in range(1, 16)]
    hub = Link("s", "ingress")
    rates = {hub: 10.0, links[0]: 2.0, **dict.fromkeys(links[1:], 10.0)}
    fabric = Fabric(rates)
    gone = fabric.start([links[2]], 100, 0.0)
    slow = fabric.start([links[0], hub], 100, 0.0)
    fast = fabric.start([links[1], hub], 100, 0.0, mark=60)
    fabric.next_s()
    fabric.cancel(gone, 1.0)
    for link, rate in rates.items():
        fabric.set_rate(link, rate, 1.0)
    fabric.set_mark(fast, 60, 1.0)
    assert (fabric.rate(slow), fabric.rate(fast)) == (2.0, 8.0)
    seen = to_end(fabric)
    assert seen == [(7.5, fast, False), (12.5, fast, True), (50.0, slow, True)]


def test_a_second_mark_comes_after_the_first():
    fabric = hosts()
    flow = fabric.start([OUT["a"]], 100, 0.0, mark=20, then=70)
    same = fabric.start([OUT["b"]], 100, 0.0, mark=30, then=30)
    seen = to_end(fabric)
    of_flow = [(at, ended) for at, which, ended in seen if which == flow]
    assert of_flow == [(2.0, False), (7.0, False), (10.0, True)]
    assert [(at, ended) for at, which, ended in seen if which == same] == [
        (3.0, False),
        (10.0, True),
    ]


@pytest.mark.parametrize(
    ("set_to", "reports"),
    [(30, [3.0, 7.0, 10.0]), (70, [7.0, 10.0]), (80, [8.0, 10.0])],
)
def test_setting_a_mark_leaves_only_a_later_second_one(set_to, reports):
    fabric = hosts()
    flow = fabric.start([OUT["a"]], 100, 0.0, mark=20, then=70)
    fabric.set_mark(flow, set_to, 1.0)
    assert [at for at, _, _ in to_end(fabric)] == reports
