"""Vectors of 16 numbers in compiled code do what NumPy does with 16 numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from workloads.plda import vectors

WEIGHTS = st.lists(st.integers(0, 1 << 18), min_size=16, max_size=16)
INTEGERS = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=16, max_size=16)


@njit
def sums_and_passed(numbers, limit):
    loaded = vectors.running_sums(vectors.load(numbers, np.uintp(0)))
    found = np.empty(16, np.float32)
    vectors.store(found, np.uintp(0), loaded)
    return found, vectors.last(loaded), vectors.at_most(loaded, limit)


@njit
def combined(numbers, others, lane, value):
    left, right = vectors.load(numbers, np.uintp(3)), vectors.load(others, np.uintp(5))
    found = np.zeros(18, np.float32)
    product = (left + vectors.splat(value)) * right
    vectors.store(found, np.uintp(1), vectors.put(product, lane, value))
    return found


@njit
def places_that_differ(left, right):
    found = []
    bits = vectors.differing(vectors.load(left, np.uintp(0)), vectors.load(right, np.uintp(0)))
    while bits:
        found.append(np.int64(vectors.lowest(bits)))
        bits &= bits - np.uint64(1)
    return found


@njit
def replaced(numbers, index, value):
    vectors.set_at(numbers, index, value)


@given(WEIGHTS, st.integers(0, 1 << 22))
def test_sums_run_along_a_vector_and_are_counted(numbers: list[int], limit: int) -> None:
    # Sums of whole numbers this small are exact in float32, whatever the order.
    sums, total, passed = sums_and_passed(np.array(numbers, np.float32), np.float32(limit))
    wanted = np.cumsum(numbers)
    assert np.array_equal(sums, wanted)
    assert total == wanted[-1]
    assert passed == (wanted <= limit).sum()


@given(WEIGHTS, st.integers(0, 1 << 20), st.integers(0, 15))
def test_what_is_put_in_a_lane_is_there_alone(numbers: list[int], value: int, lane: int) -> None:
    here = np.array([0, 0, 0, *numbers, 0, 0], np.float32)
    there = np.arange(21, dtype=np.float32) / 16
    wanted = np.zeros(18, np.float32)
    wanted[1:17] = (here[3:19] + np.float32(value)) * there[5:21]
    beside = combined(here, there, np.uintp(2**64 - 16 + lane), np.float32(value))
    assert np.array_equal(beside, wanted)
    wanted[1 + lane] = value
    assert np.array_equal(combined(here, there, np.uintp(lane), np.float32(value)), wanted)


@given(INTEGERS, INTEGERS, st.sets(st.integers(0, 15)))
def test_differing_lanes_are_found_in_rising_order(
    numbers: list[int], others: list[int], equal: set[int]
) -> None:
    left, right = np.array(numbers, np.int32), np.array(others, np.int32)
    right[list(equal)] = left[list(equal)]
    assert places_that_differ(left, right) == np.flatnonzero(left != right).tolist()


@given(st.integers(0, 47), st.integers(-100, 100))
def test_one_number_of_an_array_is_replaced(index: int, value: int) -> None:
    numbers = np.arange(48, dtype=np.float32)
    replaced(numbers, np.uintp(index), np.float32(value))
    wanted = np.arange(48, dtype=np.float32)
    wanted[index] = value
    assert np.array_equal(numbers, wanted)


@pytest.mark.parametrize("size", [1, 16, 17, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_zeros_begin_where_a_vector_should(size: int, dtype: type) -> None:
    for _ in range(5):
        made = vectors.zeros(size, np.dtype(dtype))
        assert (made.size, made.dtype, made.any()) == (size, dtype, False)
        assert made.ctypes.data % 64 == 0


@njit
def whole(size):
    return vectors.whole(size)


def test_sizes_are_rounded_up_to_whole_vectors() -> None:
    assert [whole(size) for size in (1, 15, 16, 17, 100)] == [16, 16, 16, 32, 112]
