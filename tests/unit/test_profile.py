"""Piecewise-constant bandwidth: integrals and reservations, values worked out by hand."""

from __future__ import annotations

import math

import pytest

from mlfabric.planning.profile import Piece, Profile, lowest

# 4 bytes/s until 2 s, nothing until 3 s, then 10 bytes/s.
STEPS = Profile((0.0, 2.0, 3.0), (4.0, 0.0, 10.0))


@pytest.mark.parametrize(
    ("start", "n_bytes", "end"),
    [
        (0.0, 4.0, 1.0),  # within the first step
        (0.0, 8.0, 2.0),  # exactly to its end
        (0.0, 18.0, 4.0),  # 8 bytes, a pause, 10 bytes at 10/s
        (1.5, 12.0, 4.0),  # 2 bytes, a pause, 10 bytes
        (2.5, 5.0, 3.5),  # starts in the pause
        (0.0, 0.0, 0.0),  # nothing to send
    ],
)
def test_finish_is_where_the_integral_reaches_the_size(start, n_bytes, end):
    assert STEPS.finish(start, n_bytes) == pytest.approx(end)


def test_a_transfer_that_never_ends_ends_at_infinity():
    assert Profile((0.0, 1.0), (1.0, 0.0)).finish(0.0, 2.0) == math.inf


def test_pieces_leave_out_stretches_without_bandwidth():
    assert STEPS.pieces(1.0, 14.0) == (Piece(1.0, 2.0, 4.0), Piece(3.0, 4.0, 10.0))


def test_reserving_takes_the_pieces_and_no_more():
    left = STEPS.minus([Piece(1.0, 2.0, 1.0), Piece(3.5, 4.0, 10.0)])
    assert left == Profile((0.0, 1.0, 2.0, 3.0, 3.5, 4.0), (4.0, 3.0, 0.0, 10.0, 0.0, 10.0))


def test_the_residual_of_a_path_is_its_lowest_link():
    other = Profile((0.0, 1.0), (1.0, 6.0))
    assert lowest([STEPS, other]) == Profile((0.0, 1.0, 2.0, 3.0), (1.0, 4.0, 0.0, 6.0))


def test_first_time_at_a_rate():
    assert STEPS.first_time_at(4.0, 0.5) == 0.5
    assert STEPS.first_time_at(5.0, 0.5) == 3.0
    assert STEPS.first_time_at(11.0, 0.5) == math.inf
