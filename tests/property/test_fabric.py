"""The network of flows beside one in plain Python, and what must hold of it at any time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlfabric.engines.virtual.fabric import Fabric
from mlfabric.topology import Link
from tests.support.plain_fabric import PlainFabric

LINKS = [Link(f"h{i}", "egress") for i in range(5)]
NEAR = 1e-6


@dataclass(frozen=True)
class Change:
    """What happens after `wait_s`; `pick` chooses a flow or a link."""

    what: str
    wait_s: float
    pick: int
    path: tuple[int, ...] = ()
    size: float = 1.0
    behind: tuple[int, ...] = ()
    lag: float = 0.0
    weight: float = 1.0


# Mostly starts; odd waits, so that hardly anything happens by chance at the time of something else.
changes = st.builds(
    Change,
    st.sampled_from(["start"] * 6 + ["rate", "all rates", "cancel", "nothing"]),
    st.just(0.0) | st.integers(1, 60).map(lambda n: n * math.pi / 30),
    st.integers(0, 20),
    st.lists(st.integers(0, 4), unique=True, max_size=3).map(tuple),
    st.integers(1, 12).map(float),
    st.lists(st.integers(0, 5), unique=True, max_size=2).map(tuple),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([1.0, 1.0, 0.3, 2.5]),
)
capacities = st.lists(st.integers(1, 8).map(float), min_size=5, max_size=5)
scripts = st.lists(changes, min_size=1, max_size=10)


class Both:
    """The library's network and the plain one, through the same changes."""

    def __init__(self, capacity, in_order, look=lambda both: None):
        self.fabric = Fabric(dict(zip(LINKS, capacity, strict=True)), in_order=in_order)
        self.plain = PlainFabric(list(capacity), in_order)
        self.numbers: dict[int, int] = {}  # live flows: their number here -> in the library
        self.ended: dict[int, float] = {}
        self.at = 0.0
        self.look = look

    def run(self, script):
        """What happens at one time is asked for without a look in between."""
        for number, change in enumerate(script):
            if change.wait_s > 0 or number == 0:
                self.go_to(self.at + change.wait_s)
            self.apply(change)
            if all(later.wait_s > 0 for later in script[number + 1 : number + 2]):
                self._look()
        self.go_to(math.inf)
        return self

    def _look(self):
        """But for moments when something else happens at once."""
        if self.fabric.next_s() > self.at:
            self.look(self)

    def go_to(self, until):
        calls = 0
        while self.fabric.next_s() <= until and self.fabric.next_s() < math.inf:
            self.at = self.fabric.next_s()
            names = {number: name for name, number in self.numbers.items()}
            for number, ended in self.fabric.advance(self.at):
                assert ended
                self.ended[names[number]] = self.at
                del self.numbers[names[number]]
            self.plain.run(self.at)
            self._look()
            calls += 1
            assert calls < 1000, "events without end"
        if until < math.inf:
            self.at = until
            assert self.fabric.advance(until) == []
        self.plain.run(until)

    def apply(self, change):
        live = sorted(self.numbers)
        if change.what == "start":
            behind = [live[i] for i in change.behind if i < len(live)]
            number = self.fabric.start(
                [LINKS[link] for link in change.path],
                change.size,
                self.at,
                behind=[self.numbers[name] for name in behind],
                lag_bytes=change.lag,
                weight=change.weight,
            )
            self.numbers[len(self.plain.flows)] = number
            self.plain.start(change.path, change.size, behind, change.lag, change.weight)
        elif change.what == "rate":
            rate = float(change.pick % 5)
            self.fabric.set_rate(LINKS[change.pick % 5], rate, self.at)
            self.plain.set_rate(change.pick % 5, rate)
        elif change.what == "all rates":
            for link, capacity in enumerate(self.plain.capacity.copy()):
                rate = capacity if change.pick % 2 else float((change.pick + link) % 5)
                self.fabric.set_rate(LINKS[link], rate, self.at)
                self.plain.set_rate(link, rate)
        elif change.what == "cancel" and live:
            name = live[change.pick % len(live)]
            if not self.plain.flows[name].path:
                self.fabric.next_s()  # it is where its inputs let it be only once that is asked
            moved = self.fabric.cancel(self.numbers.pop(name), self.at)
            assert moved == pytest.approx(self.plain.flows[name].moved, rel=NEAR, abs=NEAR)
            self.plain.cancel(name)

    def assert_same_ends(self):
        """Of those that have ended in the plain network; not a number: cancelled."""
        ends = {name: flow.ended for name, flow in enumerate(self.plain.flows)}
        expected = {n: at for n, at in ends.items() if at is not None and not math.isnan(at)}
        assert self.ended == pytest.approx(expected, rel=NEAR, abs=NEAR)


@given(capacities, scripts, st.booleans())
@settings(max_examples=150, deadline=None)
def test_ends_are_those_of_the_plain_network(capacity, script, in_order):
    Both(capacity, in_order).run(script).assert_same_ends()


meetings = st.builds(
    Change,
    st.sampled_from(["start"] * 6 + ["rate", "all rates", "cancel"]),
    st.just(0.0) | st.integers(1, 60).map(lambda n: n * math.pi / 30),
    st.integers(0, 20),
    st.sampled_from([(0,), (0, 1), (0, 2), (3, 0), (4, 0)]),
    st.integers(1, 12).map(float),
    weight=st.sampled_from([1.0, 0.3, 2.5]),
)


@given(capacities, st.lists(meetings, min_size=2, max_size=14))
@settings(max_examples=150, deadline=None)
def test_flows_that_meet_on_one_link_end_as_in_the_plain_network(capacity, script):
    Both(capacity, in_order=False, look=assert_fair).run(script).assert_same_ends()


def assert_fair(both):
    """No link is over its capacity; who is slower than its inputs has a bottleneck."""
    plain, rate = both.plain, {n: both.fabric.rate(i) for n, i in both.numbers.items()}
    level = {name: its / plain.flows[name].weight for name, its in rate.items()}
    paths = {name: plain.flows[name].path for name in rate}
    load = [sum(r for n, r in rate.items() if x in paths[n]) for x in range(5)]
    full = [a >= b * (1 - 1e-9) for a, b in zip(load, plain.capacity, strict=True)]
    assert all(a <= b * (1 + 1e-9) for a, b in zip(load, plain.capacity, strict=True))
    for name, its in rate.items():
        bottleneck = any(
            full[x]
            and all(level[name] >= r * (1 - 1e-9) for n, r in level.items() if x in paths[n])
            for x in paths[name]
        )
        capped = plain.flows[name].cap()
        assert its <= capped * (1 + NEAR) + NEAR
        assert bottleneck or its >= min(capped, 1e9) * (1 - NEAR) or not paths[name]


@given(capacities, scripts)
@settings(max_examples=80, deadline=None)
def test_rates_are_fair_as_weights_say_but_for_caps(capacity, script):
    Both(capacity, False, assert_fair).run(script)


def assert_same_anew(both):
    before = {name: both.fabric.rate(number) for name, number in both.numbers.items()}
    both.fabric.recompute(both.at)
    after = {name: both.fabric.rate(number) for name, number in both.numbers.items()}
    assert after == pytest.approx(before, rel=1e-9, abs=1e-9)


@given(capacities, scripts, st.booleans())
@settings(max_examples=80, deadline=None)
def test_computing_all_anew_changes_nothing(capacity, script, in_order):
    Both(capacity, in_order, assert_same_anew).run(script)


@given(capacities, scripts, st.booleans())
@settings(max_examples=60, deadline=None)
def test_bytes_only_grow_and_are_never_ahead_of_those_forwarded(capacity, script, in_order):
    last: dict[int, float] = {}

    def look(both):
        for name, number in both.numbers.items():
            flow, moved = both.plain.flows[name], both.fabric.moved(number, both.at)
            assert last.get(name, 0.0) <= moved <= flow.size
            last[name] = moved
            for other in flow.behind:
                if other.ended is None:
                    where = [n for n in both.numbers if both.plain.flows[n] is other]
                    come = both.fabric.moved(both.numbers[where[0]], both.at) - flow.lag
                    assert moved / flow.size <= max(come, 0.0) / other.size + 1e-8

    Both(capacity, in_order, look).run(script)


def trace(capacity, script, in_order):
    seen = []

    def look(both):
        seen.append((both.at, dict(both.ended), dict(both.numbers)))

    Both(capacity, in_order, look).run(script)
    return seen


@given(capacities, scripts, st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_same_calls_give_the_same_bits(capacity, script, in_order):
    assert trace(capacity, script, in_order) == trace(capacity, script, in_order)
