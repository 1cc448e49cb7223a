"""Sums along trees are right for any number of workers, size, order of arrival and link rates."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlfabric import policies
from mlfabric.payload import Payload, dense, to_wire
from mlfabric.policies.base import PolicyContext
from mlfabric.policies.mlfabric_allreduce import Adaptive, chain_members
from mlfabric.policies.parts.chains import chained
from mlfabric.treesum import UP, Seen, Side, TreeSum

NAMES = [name for name in policies.names() if policies.place(name) == "workers"]
LINE = 1e6


def sums_of(policy, n, chunk_bytes):
    """How the policy sums."""
    names = tuple(f"w{i + 1}" for i in range(n))
    lines = dict.fromkeys(names, LINE)
    context = PolicyContext("server", names, lines, 0, chunk_bytes, 1.0, 0, {})
    return policies.module(policy).build(context)


def carry_out(pieces, payloads, seed, rates=None):
    """Results, bytes sent by each worker and what each has seen of others' links.

    Parts come in a random order that keeps each pair's own, some before a worker has started; with
    `rates` (bytes/s of each sender's link) they take their time, and come in its order.
    """
    n = len(payloads)
    sides = [Side(worker, pieces) for worker in range(n)]
    sums, seen = [TreeSum(side) for side in sides], [Seen(side) for side in sides]
    rng, wires, sent, free_s = random.Random(seed), {}, [0] * n, [0.0] * n
    starts, early = list(range(n)), [[] for _ in range(n)]
    rng.shuffle(starts)

    def post(parts):
        for part in parts:
            size = len(to_wire(part.payload)[1])
            sent[part.src] += size
            if rates:
                free_s[part.src] += size / rates[part.src]
            wires.setdefault((part.src, part.dst), []).append((free_s[part.src], part))

    def take(part):
        post(sums[part.dst].receive(part))

    while starts or any(wires.values()):
        choices = [wire for wire, queue in wires.items() if queue] + starts
        if rates:
            choice = min(choices, key=lambda w: -1.0 if isinstance(w, int) else wires[w][0][0])
        else:
            choice = rng.choice(choices)
        if isinstance(choice, int):
            starts.remove(choice)
            post(sums[choice].start(payloads[choice]))
            for part in early[choice]:
                take(part)
            continue
        at_s, part = wires[choice].pop(0)
        free_s[part.dst] = max(free_s[part.dst], at_s)
        if part.way == UP:
            seen[part.dst].arrived(part.src, part.piece, part.payload.values.nbytes, at_s)
        if part.dst in starts:
            early[part.dst].append(part)
        else:
            take(part)
    told = [one.bytes_per_s() for one in seen]
    return [one.result() for one in sums], sent, {k: v for one in told for k, v in one.items()}


def check_dense(pieces, n, size, seed):
    rng = np.random.default_rng(seed)
    vectors = [rng.integers(-9, 9, size).astype(np.float32) for _ in range(n)]
    results, _, _ = carry_out(pieces, [dense(v) for v in vectors], seed)
    for result in results:
        np.testing.assert_array_equal(result.values, np.sum(vectors, axis=0, dtype=np.float32))


@pytest.mark.parametrize("policy", NAMES)
@given(
    st.integers(1, 7), st.integers(0, 100), st.sampled_from([16, 64, 10_000]), st.integers(0, 99)
)
def test_dense_sums(policy, n, size, chunk_bytes, seed):
    check_dense(sums_of(policy, n, chunk_bytes).pieces(size, 4), n, size, seed)


@given(st.integers(2, 8), st.integers(0, 90), st.data())
def test_dense_sums_with_leaves(n, size, data):
    leaves = data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1))
    members = tuple(worker for worker in range(n) if worker not in leaves)
    roots = data.draw(st.lists(st.integers(0, len(members) - 1), min_size=1, max_size=4))
    lanes = data.draw(st.integers(1, 5))
    pieces = chained(size, members, tuple(sorted(leaves)), tuple(roots), lanes)
    check_dense(pieces, n, size, data.draw(st.integers(0, 99)))


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
    results, _, _ = carry_out(sums_of(policy, n, 10_000).pieces(0, 4), payloads, seed)
    for result in results:
        found = np.zeros(5000, np.int32)
        result.add_to(found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("policy", ["ring_allreduce", "mlfabric_allreduce"])
def test_a_link_carries_two_vectors_less_two_shares(policy):
    """2 (n - 1) / n of the vector: the optimum for bandwidth."""
    payloads = [dense(np.ones(8000, np.float32))] * 8
    _, sent, _ = carry_out(sums_of(policy, 8, 4096).pieces(8000, 4), payloads, 0)
    assert sent == [2 * 7 * 4000] * 8


def test_a_slow_link_is_seen_and_then_carries_one_vector_alone():
    sums = sums_of("mlfabric_allreduce", 8, 8_192)
    payloads = [dense(np.ones(80_000, np.float32))] * 8
    slow, fast = [LINE] * 7 + [0.1 * LINE], [LINE] * 8

    def operate(rates):
        _, sent, seen = carry_out(sums.pieces(80_000, 4), payloads, 0, rates)
        sums.learn(seen)
        return sent[7], seen[7]

    ring_bytes = 2 * 7 * 40_000
    assert operate(slow) == (ring_bytes, pytest.approx(0.1 * LINE))
    assert operate(slow)[0] == ring_bytes  # seen once, it may have been noticed late
    assert operate(slow) == (320_000, pytest.approx(0.1 * LINE, rel=0.05))
    assert operate(fast)[0] == 320_000
    assert operate(fast)[0] == ring_bytes  # seen once, it is believed: late notice is never early


def test_rates_above_the_line_are_not_believed():
    sums = Adaptive([LINE] * 4, 8_192)
    sums.learn({0: 90 * LINE, 1: 0.2 * LINE})
    sums.learn({0: 90 * LINE, 1: 0.2 * LINE})
    for piece in sums.pieces(1000, 4):
        assert piece.up[1] == piece.root != 1


@given(st.lists(st.sampled_from([1.0, 0.95, 0.6, 0.5, 0.25, 0.1]), min_size=1, max_size=12))
def test_members_are_the_fastest_and_at_least_half(rates):
    members = chain_members(rates)
    assert members == sorted(set(members))
    assert len(members) >= len(rates) / 2
    left = [rate for worker, rate in enumerate(rates) if worker not in members]
    assert not left or max(left) <= min(rates[worker] for worker in members)
    if len(set(rates)) == 1:
        assert len(members) == len(rates)


def test_with_one_slow_host_the_others_are_the_members():
    assert chain_members([1.0, 1.0, 0.25, 1.0]) == [0, 1, 3]
    assert chain_members([1.0, 1.0, 0.9, 1.0]) == [0, 1, 2, 3]
    assert chain_members([0.1] * 11 + [0.01]) == list(range(11))
