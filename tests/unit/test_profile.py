"""Piecewise-constant bandwidth: integrals and reservations, values worked out by hand."""

from __future__ import annotations

import math

import pytest

from mlfabric.planning.profile import Piece, Profile
from mlfabric.planning.residual import Network
from mlfabric.topology import Link, Topology
from tests.support.batches import SERVER, make_batch

# 4 bytes/s until 2 s, nothing until 3 s, then 10 bytes/s.
STEPS = Profile((0.0, 2.0, 3.0), (4.0, 0.0, 10.0))
EGRESS = Link("w", "egress")


def free(profile=STEPS, server=1000.0):
    return make_batch({"w": profile, SERVER: server}, []).residual


@pytest.mark.parametrize(
    ("start", "n_bytes", "end"),
    [
        (0.0, 4.0, 1.0),  # within the first step
        (0.0, 8.0, 2.0),  # exactly to its end
        (0.0, 18.0, 4.0),  # 8 bytes, a pause, 10 bytes at 10/s
        (1.5, 12.0, 4.0),  # 2 bytes, a pause, 10 bytes
        (2.5, 5.0, 3.5),  # starts in the pause
        (0.0, 0.0, 0.0),  # nothing to send
        (-1.0, 8.0, 1.0),  # before its origin the first rate holds
    ],
)
def test_finish_is_where_the_integral_reaches_the_size(start, n_bytes, end):
    assert free().finish("w", SERVER, start, n_bytes) == pytest.approx(end)


def test_a_transfer_that_never_ends_ends_at_infinity():
    assert free(Profile((0.0, 1.0), (1.0, 0.0))).finish("w", SERVER, 0.0, 2.0) == math.inf


def test_pieces_leave_out_stretches_without_bandwidth():
    assert free().reserve("w", SERVER, 1.0, 14.0) == (Piece(1.0, 2.0, 4.0), Piece(3.0, 4.0, 10.0))


def test_reserving_takes_the_pieces_and_no_more():
    residual = free(Profile((0.0,), (10.0,)), Profile((0.0, 1.0, 2.0), (4.0, 0.0, 6.0)))
    assert residual.reserve("w", SERVER, 0.5, 8.0) == (Piece(0.5, 1.0, 4.0), Piece(2.0, 3.0, 6.0))
    left = residual.profile(EGRESS)
    assert left == Profile((0.0, 0.5, 1.0, 2.0, 3.0), (10.0, 6.0, 10.0, 4.0, 10.0))
    left = residual.profile(Link(SERVER, "ingress"))
    assert left == Profile((0.0, 0.5, 3.0), (4.0, 0.0, 6.0))


def test_a_path_is_as_fast_as_its_slowest_link_at_each_time():
    residual = free(STEPS, Profile((0.0, 1.0), (1.0, 6.0)))
    pieces = residual.reserve("w", SERVER, 0.0, 11.0)
    assert pieces == (Piece(0.0, 1.0, 1.0), Piece(1.0, 2.0, 4.0), Piece(3.0, 4.0, 6.0))


def test_within_one_host_nothing_is_moved():
    residual = free()
    assert residual.finish("w", "w", 1.5, 100.0) == 1.5
    assert residual.reserve("w", "w", 1.5, 100.0) == ()


def test_a_copy_is_reserved_on_by_itself():
    residual = free()
    residual.copy().reserve("w", SERVER, 0.0, 4.0)
    assert residual.profile(EGRESS) == STEPS


def test_a_profile_has_room_for_any_number_of_changes():
    """Each transfer over its own slow link takes a slice of the server's for another second."""
    workers = [f"w{i}" for i in range(300)]
    residual = make_batch({SERVER: 1000.0, **dict.fromkeys(workers, 1.0)}, []).residual
    for i, worker in enumerate(workers):
        residual.reserve(worker, SERVER, 0.0, i + 1.0)
    left = residual.profile(Link(SERVER, "ingress"))
    assert len(left.times) == 301
    assert [left.rate_at(t + 0.5) for t in (0, 1, 299, 300)] == [700.0, 701.0, 999.0, 1000.0]


def test_the_past_is_forgotten():
    residual = free()
    residual.forget_before(2.5)
    assert residual.profile(EGRESS) == Profile((2.5, 3.0), (0.0, 10.0))


def test_first_time_at_a_rate():
    residual = free()
    assert residual.first_time_at(EGRESS, 4.0, 0.5) == 0.5
    assert residual.first_time_at(EGRESS, 5.0, 0.5) == 3.0
    assert residual.first_time_at(EGRESS, 11.0, 0.5) == math.inf


PODS = Topology({"a": "r1", "b": "r1", "c": "r2", "r1": "p1", "r2": "p1", "d": "r3", "r3": "p2"})


@pytest.mark.parametrize(
    ("src", "dst", "nodes"),
    [
        ("a", "a", []),
        ("a", "b", ["a egress", "b ingress"]),
        ("a", "c", ["a egress", "r1 up", "r2 down", "c ingress"]),
        ("a", "d", ["a egress", "r1 up", "p1 up", "p2 down", "r3 down", "d ingress"]),
        ("a", "e", ["a egress", "r1 up", "p1 up", "e ingress"]),
        ("e", "a", ["e egress", "p1 down", "r1 down", "a ingress"]),
    ],
)
def test_paths_climb_to_the_lowest_common_switch(src, dst, nodes):
    """What compiled code reserves on is what the topology says."""
    assert [f"{link.host} {link.direction}" for link in PODS.path(src, dst)] == nodes
    network = Network(("a", "b", "c", "d", "e"), PODS)
    residual = network.residual({link: Profile.constant(8.0) for link in network.link_row})
    residual.reserve(src, dst, 0.0, 16.0)
    used = {link for link, profile in residual.profiles().items() if profile.rate_at(1.0) == 0.0}
    assert used == set(PODS.path(src, dst))
