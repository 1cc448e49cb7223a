"""Draws made together equal those that NumPy's own generators make one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlfabric.emulation.draws import uniforms, words
from mlfabric.emulation.stragglers import (
    ComputeStragglers,
    NetworkStragglers,
    compute_factor,
    compute_factors,
    network_events,
)


def one_by_one(key: tuple[int, ...], count: int) -> list[float]:
    return np.random.default_rng(np.random.SeedSequence(key)).random(count).tolist()


@given(st.lists(st.integers(0, 2**70), min_size=1, max_size=7).map(tuple), st.integers(1, 3))
def test_a_key_gives_what_numpys_generator_gives(key: tuple[int, ...], count: int) -> None:
    spelled = [word for number in key for word in words(number)]
    assert uniforms(spelled, count).tolist() == [one_by_one(key, count)]


def test_many_keys_are_a_row_each() -> None:
    numbers, names = np.arange(5)[:, np.newaxis], np.array([3, 2**32 - 1])
    expected = [one_by_one((9, i, int(name)), 2) for i in range(5) for name in names]
    assert uniforms([9, numbers, names], 2).tolist() == expected


def test_stragglers_have_these_values_for_ever() -> None:
    # Drawn host by host and period by period, as recorded traces were.
    stragglers = NetworkStragglers(probability=0.4, factor=0.5, period_s=1.0)
    for host in ("w1", "server", "w10000"):
        name = int.from_bytes(host.encode(), "little")
        slow = [one_by_one((5, 1, period, name), 1)[0] < 0.4 for period in range(50)]
        changes = [p for p in range(50) if slow[p] != (p > 0 and slow[p - 1])]
        events = network_events(stragglers, ["w2", host, "w30000"], 5, 50.0)
        assert [event.time_s for event in events if event.host == host] == changes


def test_factors_of_many_iterations_are_those_of_each() -> None:
    stragglers = ComputeStragglers(probability=0.3, max_factor=4.0)
    for seed in (0, 2**40 + 3):
        singly = [compute_factor(stragglers, seed, 7, iteration) for iteration in range(20, 90)]
        assert compute_factors(stragglers, seed, 7, range(20, 90)).tolist() == singly


def test_nothing_is_drawn_where_nothing_straggles() -> None:
    never = ComputeStragglers(probability=0.0, max_factor=4.0)
    assert compute_factors(never, 0, 1, range(3)).tolist() == [1.0] * 3
    assert compute_factor(never, 0, 1, 2) == 1.0
