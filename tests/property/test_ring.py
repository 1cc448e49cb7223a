"""The ring's sum is right for any number of workers, size and order of arrival."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mlfabric.payload import Payload, dense, to_wire
from mlfabric.policies.ring_allreduce import RingAllreduce


def run_ring(payloads, chunk_bytes, seed):
    """Deliver messages in a random order that keeps each pair's own order."""
    n = len(payloads)
    rings = [RingAllreduce(i, n, chunk_bytes) for i in range(n)]
    rng, wires, sent = random.Random(seed), {}, [0] * n
    starts = list(range(n))
    rng.shuffle(starts)

    def post(src, messages):
        for message in messages:
            wires.setdefault((src, message.dst), []).append(message)
            sent[src] += len(to_wire(message.payload)[1])

    while starts or any(wires.values()):
        choices = [w for w, queue in wires.items() if queue] + starts
        choice = rng.choice(choices)
        if isinstance(choice, int):
            starts.remove(choice)
            post(choice, rings[choice].start(payloads[choice]))
        else:
            message = wires[choice].pop(0)
            post(message.dst, rings[message.dst].receive(message.key, message.payload))
    return [ring.result() for ring in rings], sent


@given(
    st.integers(1, 7), st.integers(0, 100), st.sampled_from([16, 64, 10_000]), st.integers(0, 99)
)
def test_dense_sums(n, size, chunk_bytes, seed):
    rng = np.random.default_rng(seed)
    vectors = [rng.integers(-9, 9, size).astype(np.float32) for _ in range(n)]
    results, _ = run_ring([dense(v) for v in vectors], chunk_bytes, seed)
    for result in results:
        np.testing.assert_array_equal(result.values, np.sum(vectors, axis=0, dtype=np.float32))


@given(st.integers(1, 7), st.integers(0, 99))
def test_sparse_sums(n, seed):
    rng = np.random.default_rng(seed)
    payloads, expected = [], np.zeros(5000, np.int32)
    for _ in range(n):
        indices = np.sort(rng.choice(5000, rng.integers(0, 60), replace=False)).astype(np.int32)
        values = rng.integers(1, 5, len(indices)).astype(np.int32)
        expected[indices] += values
        payloads.append(Payload(5000, indices, values))
    results, _ = run_ring(payloads, 10_000, seed)
    for result in results:
        found = np.zeros(5000, np.int32)
        result.add_to(found)
        np.testing.assert_array_equal(found, expected)


def test_a_link_carries_two_vectors_less_two_shares():
    """2 (n - 1) / n of the vector: the optimum for bandwidth."""
    _, sent = run_ring([dense(np.ones(8000, np.float32))] * 8, 4096, 0)
    assert sent == [2 * 7 * 4000] * 8
