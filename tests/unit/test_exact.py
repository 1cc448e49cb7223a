"""The exact optimum: tiny instances worked out by hand, and the appendix's program in one piece."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlfabric.errors import GridTooFine, SettingError
from mlfabric.events import Update
from mlfabric.plan import answer
from mlfabric.planning.batch import Batch
from mlfabric.planning.exact.search import optimum, optimum_or_estimate
from mlfabric.planning.exact.slots import grid_slot_s
from mlfabric.planning.profile import Profile
from mlfabric.planning.residual import Network
from mlfabric.topology import Link, Topology
from tests.support.appendix import least_total
from tests.support.batches import profiles

SERVER_INGRESS = Link("s", "ingress")


def batch_of(sizes, aggregators=(), *, ready=(), links=None, racks=None, **settings):
    """Update i of sizes[i] bytes waits at worker i; links carry 1 byte/s unless told otherwise."""
    workers = [f"w{i}" for i in range(1, len(sizes) + 1)]
    network = Network(tuple(dict.fromkeys(["s", *workers, *aggregators])), Topology(racks or {}))
    profiles = {link: Profile.constant(1.0) for link in network.link_row} | (links or {})
    times = ready or [0.0] * len(sizes)
    updates = tuple(
        Update(f"u{i}", worker, size, 0, time)
        for i, (worker, size, time) in enumerate(zip(workers, sizes, times, strict=True), start=1)
    )
    residual = network.residual(profiles)
    return Batch(updates, residual, "s", aggregators=tuple(aggregators), **settings)


def test_directly_the_shorter_goes_first():
    best = optimum(batch_of([3, 2]))
    assert best.completion_s == {"u2": 2.0, "u1": 5.0}
    assert best.mean_completion_s == best.bound_s == 3.5
    assert best.proven
    assert best.slot_s == 1.0


def test_nobody_to_send_is_no_problem():
    assert optimum(batch_of([])).mean_completion_s == 0.0


def test_completion_counts_from_the_time_origin_not_from_now():
    assert optimum(batch_of([2, 2], now=10.0)).mean_completion_s == 13.0  # 12 and 14


def test_while_two_go_directly_two_are_summed():
    # u, u directly: 1, 2; meanwhile two are collected at `a` by 2, and their sum arrives at 3.
    best = optimum(batch_of([1, 1, 1, 1], ["a"]))
    assert sorted(best.completion_s.values()) == [1.0, 2.0, 3.0, 3.0]
    assert sorted(best.first_hop.values()) == ["a", "a", "s", "s"]


def test_a_member_at_the_aggregator_needs_no_transfer():
    # One directly: 1; meanwhile the other joins the aggregator's own: both at 2. Directly: 1, 2, 3.
    best = optimum(batch_of([1, 1, 1], ["w1"]))
    assert best.first_hop["u1"] == "w1"
    assert sorted(best.completion_s.values()) == [1.0, 2.0, 2.0]


def test_while_the_server_is_busy_all_are_summed():
    # Free from 3 on; three are collected at `a` by then, and all are there at 4.
    free_late = {SERVER_INGRESS: Profile((0.0, 3.0), (0.0, 1.0))}
    best = optimum(batch_of([1, 1, 1], ["a"], links=free_late))
    assert set(best.completion_s.values()) == {4.0}


def test_a_late_member_is_not_waited_for():
    # u3 is ready at 4: u1 and u2 are at the server by then, summed at w1 or not.
    best = optimum(batch_of([1, 1, 1], ["w1"], ready=[0.0, 0.0, 4.0]))
    assert best.completion_s["u3"] == 5.0
    assert best.mean_completion_s == pytest.approx((1 + 2 + 5) / 3)


def test_a_slow_update_waits_beside_the_server():
    # w1 sends at half rate: u1 is with `a` at 2, when the others have come at 1 and 2: in sum 6.
    # Directly it takes half the server's rate for 2 s: (2, 2, 3), (3, 1, 3) or (4, 1, 2), each 7.
    half = {Link("w1", "egress"): Profile.constant(0.5)}
    best = optimum(batch_of([1, 1, 1], ["a"], links=half))
    assert best.first_hop == {"u1": "a", "u2": "s", "u3": "s"}
    assert best.completion_s["u1"] == 3.0


@pytest.mark.parametrize(
    ("rate", "total"),
    [
        (1.0, 6),  # narrower nowhere: 1, 2, 3
        (0.5, 8),  # u1 at 2 and u2 at 4 past the uplink, u3 at 2 with what the server has left
    ],
)
def test_a_rack_uplink_is_shared(rate, total):
    uplink = {Link("r", "up"): Profile.constant(rate)}
    best = optimum(batch_of([1, 1, 1], links=uplink, racks={"w1": "r", "w2": "r"}), slot_s=1.0)
    assert sum(best.completion_s.values()) == total


@pytest.mark.parametrize(
    ("model_bytes", "total"),
    [
        (None, 18),  # a sum of three has 2 bytes: all at 6
        (3, 21),  # it has 3: all at 7
        (100, 24),  # it has 6, or two of them 4: directly, at 6, 8 and 10, is as good
    ],
)
def test_a_sum_has_the_bytes_of_its_members_up_to_the_model(model_bytes, total):
    free_late = {SERVER_INGRESS: Profile((0.0, 4.0), (0.0, 1.0))}
    batch = batch_of([2, 2, 2], ["w1"], links=free_late, model_bytes=model_bytes)
    assert sum(optimum(batch, slot_s=1.0).completion_s.values()) == total


def test_an_update_at_the_server_itself_is_there_when_ready():
    batch = batch_of([1, 1], ready=[0.0, 2.0])
    at_server = batch.updates[1]._replace(worker="s")
    best = optimum(dataclasses.replace(batch, updates=(batch.updates[0], at_server)))
    assert best.completion_s == {"u1": 1.0, "u2": 2.0}


def test_a_given_plan_is_no_limit_below_the_optimum():
    batch = batch_of([1, 1, 1], ["w1"])
    assert optimum(batch, reachable_s=5 / 3).mean_completion_s == pytest.approx(5 / 3)
    with pytest.raises(SettingError, match="no plan"):
        optimum(batch, reachable_s=4 / 3)


@pytest.mark.parametrize("seed", range(20))
def test_as_the_program_in_one_piece(seed):
    rng = random.Random(seed)
    batch = _random_batch(rng)
    best = optimum(batch, slot_s=1.0)
    ends = best.completion_s.values()
    # Whoever is not worse in sum has nobody later than this.
    slots = round(sum(ends)) - sum(sorted(map(round, ends))[:-1]) + 3
    assert sum(ends) == pytest.approx(least_total(batch, slots))


def _random_batch(rng: random.Random) -> Batch:
    n = rng.randint(2, 3)
    workers = [f"w{i + 1}" for i in range(n)]
    aggregators = rng.sample([*workers, "a", "b"], rng.randint(1, 2))
    racked = [*workers[:2], "a"] if rng.random() < 0.4 else []
    racks = {host: "r" for host in racked if host in workers or host in aggregators}
    links = {
        Link(worker, "egress"): Profile.constant(0.5) for worker in workers if rng.random() < 0.3
    }
    if racks:
        links[Link("r", "up")] = Profile.constant(rng.choice([0.5, 1.0]))
    links[SERVER_INGRESS] = Profile.constant(rng.choice([0.5, 1.0]))
    return batch_of(
        [rng.randint(1, 2) for _ in workers],
        aggregators,
        ready=[float(rng.randint(0, 2)) for _ in workers],
        links=links,
        racks=racks,
    )


def test_the_slot_divides_all_that_happens_alone():
    # Ready at 0.5; 3 and 2 bytes take 3 s and 2 s; the server is free from 1.25 s on.
    free_late = {SERVER_INGRESS: Profile((0.0, 1.25), (0.0, 1.0))}
    assert grid_slot_s(batch_of([3, 2], ready=[0.0, 0.5], links=free_late)) == 0.25
    assert grid_slot_s(batch_of([4, 6])) == 2.0


@pytest.mark.parametrize(
    ("batch", "settings", "message"),
    [
        (batch_of([1] * 6), {}, "6 updates, at most 5"),
        (batch_of([1], ["a", "b", "c"]), {}, "3 aggregators, at most 2"),
        (batch_of([41]), {"slot_s": 1.0}, "more than 40 slots"),
        (batch_of([1, 1]), {"horizon_slots": 41}, "41 slots of 1 s, at most 40"),
        (batch_of([1, 1]), {"horizon_slots": 1}, "no plan completes within 1 slots"),
        (batch_of([1, 1], ready=[math.pi, math.e]), {}, "no slot divides"),
    ],
)
def test_what_is_too_large_or_impossible_is_refused_in_one_line(batch, settings, message):
    with pytest.raises(SettingError, match=message) as refused:
        optimum(batch, **settings)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("batch", "settings"),
    [
        (batch_of([41]), {"slot_s": 1.0}),  # directly in 41
        (batch_of([4] * 5), {"slot_s": 1.0}),  # directly in 20; another no worse might take more
        (batch_of([1], ready=[math.pi]), {}),
        (batch_of([1], ready=[1 / 3 + 1e-8]), {}),  # not a third
    ],
)
def test_a_grid_that_is_too_fine_is_told_apart(batch, settings):
    with pytest.raises(GridTooFine):
        optimum(batch, max_slots=20, **settings)


def test_a_coarse_grid_where_the_own_one_is_too_fine():
    # Sent directly, it is there at pi + 1. Of 40 slots until then, 31 pass before it is sent and
    # 10 while it is: one too many. Of slots 1.1 times as long it is 28 (27.6) and 9 (8.8).
    best = optimum_or_estimate(batch_of([1], ready=[math.pi]), math.pi + 1)
    assert best.slot_s == pytest.approx((math.pi + 1) / 40 * 1.1)
    assert best.mean_completion_s == pytest.approx(37 * best.slot_s)


def test_the_own_grid_where_there_is_one():
    assert optimum_or_estimate(batch_of([3, 2]), 5.0) == optimum(batch_of([3, 2]))


def test_a_coarse_grid_does_not_help_against_other_limits():
    with pytest.raises(SettingError, match="6 updates, at most 5"):
        optimum_or_estimate(batch_of([1] * 6), 6.0)


def test_within_a_slot_the_lowest_rate_counts():
    # Never both until 1 s, then 2 bytes/s: 3 bytes are there at 2.5 s, that is after 3 slots.
    # At their mean rates of the first slot, 1 byte of them would cross in it: after 2.
    first_half = Profile((0.0, 0.5, 1.0), (2.0, 0.0, 2.0))
    second_half = Profile((0.0, 0.5), (0.0, 2.0))
    links = {Link("w1", "egress"): first_half, SERVER_INGRESS: second_half}
    assert optimum(batch_of([3], links=links), slot_s=1.0).mean_completion_s == 3.0


@given(st.integers(1, 20), st.floats(0.0, 8.0), profiles(), profiles())
def test_one_update_is_never_there_earlier_than_it_can(size, ready, egress, ingress):
    links = {Link("w1", "egress"): egress, SERVER_INGRESS: ingress}
    batch = batch_of([size], ready=[ready], links=links)
    end_s = batch.residual.finish("w1", "s", ready, size)
    best = optimum_or_estimate(batch, end_s)
    assert best.mean_completion_s >= end_s * (1 - 1e-8)


def test_no_plan_on_the_grid_is_better():
    rng, means = random.Random(5), []
    while len(means) < 30:
        asked = _random_problem(rng)
        found = answer(asked, exact=True)
        if _on_grid(found):
            means.append((found["optimal_mean_completion"], found["mean_completion"]))
            ends = found["optimal_completion"].values()
            assert sum(ends) / len(ends) == pytest.approx(means[-1][0])
            assert set(found["optimal_first_hop"].values()) <= {"s", *asked["aggregators"]}
    assert all(best <= heuristic + 1e-9 for best, heuristic in means)
    assert any(best < heuristic - 0.1 for best, heuristic in means)


def _random_problem(rng: random.Random) -> dict[str, Any]:
    """Up to four updates; links of 1 or 0.5 bytes/s, that of the server may be taken at first."""
    workers = [f"w{i}" for i in range(rng.randint(2, 4))]
    rates = {host: [[0.0, rng.choice([0.5, 1.0, 1.0])]] for host in [*workers, "a", "s"]}
    free = [[0.0, 0.0], [rng.randint(1, 4), 1.0]] if rng.random() < 0.3 else rates["s"]
    return {
        "server": "s",
        "links": {
            host: {"egress": rate, "ingress": free if host == "s" else [[0.0, 1.0]]}
            for host, rate in rates.items()
        },
        "updates": [
            {
                "id": f"u{worker}",
                "worker": worker,
                "bytes": rng.randint(1, 3),
                "version": 0,
                "ready": rng.randint(0, 3),
            }
            for worker in workers
        ],
        "aggregators": rng.sample([*workers, "a"], rng.randint(0, 2)),
        "aggregation": rng.choice(["paper", "refined"]),
        "reuse_aggregators": False,
    }


def _on_grid(found: dict[str, Any]) -> bool:
    """Whether all transfers start, pause and end at the borders of slots."""
    moments = [
        moment / found["optimal_slot"]
        for transfer in found["transfers"]
        for piece in transfer["pieces"]
        for moment in piece[:2]
    ]
    return all(math.isclose(moment, round(moment), abs_tol=1e-9) for moment in moments)


def test_limits_can_be_raised():
    assert optimum(batch_of([41]), slot_s=1.0, max_slots=41).mean_completion_s == 41.0
    assert optimum(batch_of([1] * 6), max_updates=6).mean_completion_s == 3.5
