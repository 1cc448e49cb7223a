"""The collective that follows bandwidths: when it looks at links, and what it makes of that."""

from __future__ import annotations

import pytest

from mlfabric.policies.mlfabric_allreduce import MEASURED_EVERY_S, Adaptive, chain_members

RATE = 12.5e6


def measured(sums, n_bytes, operations):
    """Of so many operations on float32, those of which links are looked at."""
    found = []
    for number in range(operations):
        sums.pieces(n_bytes // 4, 4)
        if sums.measures:
            found.append(number)
            sums.learn(dict.fromkeys(range(12), RATE))
    return found


@pytest.mark.parametrize(
    ("n_bytes", "every"),
    [(1_000_000, 3), (4_000_000, 1), (16_000_000, 1), (100_000, 25)],
)
def test_links_are_looked_at_about_every_so_often(n_bytes, every):
    """An operation takes about 2 S/B: 0.16 s for 1 MB at 12.5 MB/s."""
    found = measured(Adaptive([RATE] * 12, 65_536), n_bytes, 60)
    assert found == list(range(0, 60, every))
    assert 2 * n_bytes / RATE * every >= MEASURED_EVERY_S


def test_operations_that_a_slow_leaf_holds_up_are_looked_at_each():
    sums = Adaptive([RATE] * 12, 65_536)
    slow = dict.fromkeys(range(12), RATE) | {3: RATE / 10}
    for _ in range(2):
        sums._unmeasured_s = MEASURED_EVERY_S
        sums.pieces(250_000, 4)
        sums.learn(slow)
    assert measured_once(sums)


def test_a_link_that_has_become_slow_is_looked_at_again_at_once():
    sums = Adaptive([RATE] * 12, 65_536)
    found = []
    for number in range(6):
        pieces = sums.pieces(250_000, 4)
        if sums.measures:
            found.append(number)
            sums.learn(dict.fromkeys(range(12), RATE) | {3: RATE / 10})
        if number == 2:  # after two looks the slow host is a leaf: it is the root of no piece
            assert 3 not in {piece.root for piece in pieces}
    assert found[:2] == [0, 1]


def measured_once(sums):
    sums.pieces(250_000, 4)
    return sums.measures


def test_what_has_no_known_size_is_looked_at_each_time():
    assert measured(Adaptive([RATE] * 12, 65_536), 0, 3) == [0, 1, 2]


def test_slow_hosts_are_left_out_of_the_chains():
    rates = [RATE] * 12
    assert chain_members(rates) == list(range(12))
    rates[3] = RATE / 4
    assert chain_members(rates) == [w for w in range(12) if w != 3]
