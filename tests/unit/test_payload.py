"""Dense and sparse vectors: sums, forms on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from mlfabric.errors import ProtocolError
from mlfabric.payload import Payload, dense, from_wire, to_wire, total, wire_bytes, wire_size


def sparse(size, entries, dtype=np.int32):
    return Payload(size, np.array(list(entries), np.int32), np.array(list(entries.values()), dtype))


def test_a_sum_stays_sparse_while_that_is_smaller():
    summed = total([sparse(100, {1: 2, 7: -1}), sparse(100, {7: 5, 9: 1})])
    assert summed.indices.tolist() == [1, 7, 9]
    assert summed.values.tolist() == [2, 4, 1]


def test_a_sum_turns_dense_where_that_is_smaller():
    summed = total([sparse(4, {0: 1, 1: 1}), sparse(4, {2: 3, 3: 1})])
    assert summed.indices is None
    assert summed.values.tolist() == [1, 1, 3, 1]


def test_dense_and_sparse_add_up():
    summed = total([dense(np.ones(3, np.float32)), sparse(3, {1: 2.0}, np.float32)])
    assert summed.values.tolist() == [1.0, 3.0, 1.0]


@pytest.mark.parametrize(
    "payload",
    [
        dense(np.arange(5, dtype=np.float32)),
        dense(np.arange(5, dtype=np.int32)),
        sparse(1000, {3: 4, 999: -2}),
        sparse(1000, {}),
    ],
)
def test_wire_round_trip(payload):
    description, data = to_wire(payload)
    assert len(data) == wire_bytes(description) == wire_size(payload)
    back = from_wire(description, data)
    assert back.size == payload.size
    assert back.values.tolist() == payload.values.tolist()
    assert (back.indices is None) == (payload.indices is None)


def test_dense_values_cross_without_a_copy():
    values = np.zeros(8, np.float32)
    assert np.shares_memory(to_wire(dense(values))[1], values)


@pytest.mark.parametrize("change", [{"dtype": "object"}, {"size": 6}, {"nnz": 1}])
def test_a_description_that_does_not_fit_is_refused(change):
    description, data = to_wire(dense(np.zeros(5, np.float32)))
    with pytest.raises(ProtocolError):
        from_wire(description | change, data)


def test_sparse_counts_take_two_bytes_where_gaps_and_values_are_small():
    payload = sparse(100_000, {i: (-1) ** i for i in range(0, 50_000, 50)})
    assert len(to_wire(payload)[1]) == 2 * 1000


@pytest.mark.parametrize("gap", [0, 1, 254, 255, 256, 510, 511, 70_000])
@pytest.mark.parametrize("value", [1, -127, -128, 127, 128, -32_768, -32_769, 2**31 - 1, -(2**31)])
def test_any_gap_and_any_count_survives(gap, value):
    payload = sparse(200_000, {gap: value, 2 * gap + 1: -1})
    back = from_wire(*to_wire(payload))
    assert back.indices.tolist() == [gap, 2 * gap + 1]
    assert back.values.tolist() == [value, -1]
    assert back.values.dtype == np.int32


def test_a_few_large_counts_do_not_widen_the_others():
    counts = dict.fromkeys(range(0, 5000, 5), 1) | {10: 1000, 20: -70_000}
    payload = sparse(5000, counts)
    description, data = to_wire(payload)
    assert len(data) == wire_size(payload) == 2 * 1000 + 2 * 4
    assert from_wire(description, data).values.tolist() == list(counts.values())


def test_wide_values_that_do_not_fit_are_refused():
    description, data = to_wire(sparse(5000, dict.fromkeys(range(0, 5000, 5), 1) | {10: 1000}))
    assert description["wide"] == 1
    data[description["steps"]] = 128  # stands for a wide value that is not there
    with pytest.raises(ProtocolError, match="wide values do not fit"):
        from_wire(description, data)


def test_indices_past_the_end_are_refused():
    description, data = to_wire(sparse(1000, {3: 4, 999: -2}))
    with pytest.raises(ProtocolError):
        from_wire(description | {"size": 999}, data)


def test_norms():
    assert dense(np.array([3, 4], np.float32)).norm() == pytest.approx(5.0)  # L2
    assert dense(np.array([3, -4], np.int32)).norm() == 7.0  # L1
