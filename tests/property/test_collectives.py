"""Collective sums are right for any number of workers, size, order of arrival and link rates."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlfabric import policies
from mlfabric.payload import Payload, dense, to_wire
from mlfabric.policies.base import PolicyContext
from mlfabric.policies.parts.shares import boundaries, median_rates, shares

NAMES = [name for name in policies.names() if policies.place(name) == "workers"]


def sides(policy, n, chunk_bytes):
    """Every worker's maker of operations."""
    names = tuple(f"w{i + 1}" for i in range(n))
    context = PolicyContext("server", names, {}, 0, chunk_bytes, 1.0, 0, {})
    return [policies.module(policy).build(context, worker) for worker in range(n)]


def carry_out(operations, payloads, seed, rates=None):
    """Deliver messages in a random order that keeps each pair's own order.

    With `rates` (bytes/s of each sender's link) a message takes its time, else none.
    """
    n = len(payloads)
    collectives = [make() for make in operations]
    rng, wires, sent, free_s = random.Random(seed), {}, [0] * n, [0.0] * n
    starts = list(range(n))
    rng.shuffle(starts)

    def post(messages):
        for message in messages:
            size = len(to_wire(message.payload)[1])
            sent[message.src] += size
            if rates:
                free_s[message.src] += size / rates[message.src]
            wires.setdefault((message.src, message.dst), []).append((free_s[message.src], message))

    def earliest(choices):
        return min(choices, key=lambda wire: -1.0 if isinstance(wire, int) else wires[wire][0][0])

    while starts or any(wires.values()):
        choices = [wire for wire, queue in wires.items() if queue] + starts
        choice = earliest(choices) if rates else rng.choice(choices)
        if isinstance(choice, int):
            starts.remove(choice)
            post(collectives[choice].start(payloads[choice], 0.0))
        else:
            at_s, message = wires[choice].pop(0)
            free_s[message.dst] = max(free_s[message.dst], at_s)
            post(collectives[message.dst].receive(message, at_s))
    return [collective.result() for collective in collectives], sent


@pytest.mark.parametrize("policy", NAMES)
@given(
    st.integers(1, 7), st.integers(0, 100), st.sampled_from([16, 64, 10_000]), st.integers(0, 99)
)
def test_dense_sums(policy, n, size, chunk_bytes, seed):
    rng = np.random.default_rng(seed)
    operations = sides(policy, n, chunk_bytes)
    for _ in range(2):
        vectors = [rng.integers(-9, 9, size).astype(np.float32) for _ in range(n)]
        results, _ = carry_out(operations, [dense(v) for v in vectors], seed)
        for result in results:
            expected = np.sum(vectors, axis=0, dtype=np.float32)
            np.testing.assert_array_equal(result.values, expected)


@pytest.mark.parametrize("policy", NAMES)
@given(st.integers(1, 7), st.integers(0, 99))
def test_sparse_sums(policy, n, seed):
    rng = np.random.default_rng(seed)
    payloads, expected = [], np.zeros(5000, np.int32)
    for _ in range(n):
        indices = np.sort(rng.choice(5000, rng.integers(0, 60), replace=False)).astype(np.int32)
        values = rng.integers(1, 5, len(indices)).astype(np.int32)
        expected[indices] += values
        payloads.append(Payload(5000, indices, values))
    results, _ = carry_out(sides(policy, n, 10_000), payloads, seed)
    for result in results:
        found = np.zeros(5000, np.int32)
        result.add_to(found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("policy", ["ring_allreduce", "mlfabric_allreduce"])
def test_a_link_carries_two_vectors_less_two_shares(policy):
    """2 (n - 1) / n of the vector: the optimum for bandwidth."""
    payloads = [dense(np.ones(8000, np.float32))] * 8
    _, sent = carry_out(sides(policy, 8, 4096), payloads, 0)
    assert sent == [2 * 7 * 4000] * 8


@given(
    st.integers(3, 8),
    st.lists(st.sampled_from([1.0, 1.0, 1.0, 0.5, 0.25, 0.1]), min_size=8, max_size=8),
    st.integers(0, 9),
)
def test_all_learn_the_same_rates_and_sums_stay_right(n, rates, seed):
    operations = sides("mlfabric_allreduce", n, 8_192)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        vectors = [rng.integers(-9, 9, 40_000).astype(np.float32) for _ in range(n)]
        results, sent = carry_out(operations, [dense(v) for v in vectors], seed, rates[:n])
        expected = np.sum(vectors, axis=0, dtype=np.float32)
        for result in results:
            np.testing.assert_array_equal(result.values, expected)
        portions = [operation.__self__.portions for operation in operations]
        for other in portions[1:]:
            np.testing.assert_array_equal(other, portions[0])
    assert sum(sent) == n * 160_000 + (n - 2) * 160_000  # all parts, then all sums, but one's own


def test_a_slow_link_is_seen_and_then_carries_its_own_part_alone():
    operations = sides("mlfabric_allreduce", 8, 8_192)
    payloads = [dense(np.ones(80_000, np.float32))] * 8
    rates = [1.0] * 7 + [0.1]
    _, first = carry_out(operations, payloads, 0, rates)
    _, second = carry_out(operations, payloads, 0, rates)
    assert first[7] == 2 * 7 * 40_000
    assert second[7] == 320_000
    carry_out(operations, payloads, 0)  # nothing is measured: as before
    _, recovered = carry_out(operations, payloads, 0, [1.0] * 8)
    assert recovered[7] == 320_000
    _, again = carry_out(operations, payloads, 0, [1.0] * 8)
    assert again[7] == pytest.approx(2 * 7 * 40_000, rel=0.1)


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=20))
def test_shares_add_up_and_no_other_shares_are_done_sooner(rates):
    """The last host's time, S (1 + x (n - 2)) / B, is the same wherever x > 0, and least there."""
    rates = np.array(rates)
    portions = shares(rates)
    n = len(rates)
    assert portions.min() >= 0
    assert portions.sum() == pytest.approx(1.0)
    if n <= 2:
        return
    level = np.median(rates)
    speeds = np.where(rates >= 0.65 * level, 1.0, rates / level)
    times = (1 + portions * (n - 2)) / speeds
    taking = portions > 1e-12
    np.testing.assert_allclose(times[taking], times[taking].max())
    assert np.all(1 / speeds[~taking] >= times[taking].max() * (1 - 1e-9))


def test_boundaries_and_medians():
    assert boundaries(np.array([0.5, 0.25, 0.25]), 10) == [0, 5, 8, 10]
    assert boundaries(np.array([0.0, 1.0]), 3) == [0, 0, 3]
    before = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(median_rates([], before), before)
    nan = float("nan")
    found = median_rates([(nan, 4.0, nan), (5.0, 6.0, nan), (7.0, nan, nan)], before)
    np.testing.assert_array_equal(found, [6.0, 5.0, 3.0])
