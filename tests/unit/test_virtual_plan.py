"""What the virtual engine is told: bytes, links, racks and stragglers, worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from experiments.overrides import validate
from experiments.plan import chunk_bytes, computation_s
from experiments.schema import RunConfig
from experiments.virtual_plan import virtual_plan
from mlfabric.emulation.stragglers import ComputeStragglers, compute_factor
from mlfabric.topology import Link

MODEL = np.zeros(1_000, np.float32)  # 4,000 bytes


def one(*overrides: str) -> RunConfig:
    return validate(["engine=virtual", *overrides], multirun=False)[0]


def test_a_small_model_stands_in_for_a_large_one() -> None:
    plan = virtual_plan(one("cluster=paper"), conserved=False, model=MODEL)
    assert plan.wire.byte_scale == 102.0e6 / 4_000
    assert plan.wire.nominal_bytes is None
    assert plan.context.model_bytes == 102_000_000
    assert (plan.nominal_s, plan.max_updates, plan.reserved_rates) == (0.25, None, False)


def test_a_laptop_cluster_sends_what_is_trained() -> None:
    plan = virtual_plan(one(), conserved=True, model=MODEL)
    assert plan.wire.byte_scale == 1.0
    assert plan.context.model_bytes == 4_000
    assert (plan.conserved, plan.step_scale) == (True, 1.0)  # counts are never scaled


def test_without_training_every_update_has_one_size() -> None:
    config = one("cluster=paper", "workload.timing_only=true", "policy=ring_allreduce")
    plan = virtual_plan(config, conserved=False, model=None)
    assert (plan.wire.byte_scale, plan.wire.nominal_bytes) == (1.0, 102_000_000)
    assert plan.context.model_bytes == 102_000_000


def test_several_servers_keep_a_part_each() -> None:
    settings = ["cluster=paper", "cluster.servers=4", "policy=async_ps"]
    plan = virtual_plan(one(*settings), conserved=False, model=MODEL)
    assert plan.servers == ("server1", "server2", "server3", "server4")
    assert plan.hosts[:6] == ("scheduler", *plan.servers, "w1")
    told = [(context.server, context.model_bytes) for context in plan.contexts]
    assert told == [(server, 25_500_000) for server in plan.servers]
    lines = plan.contexts[1].line_bytes_per_s
    assert (lines["server2"], lines["w1"]) == (1.25e9, 1.25e9 / 4)
    assert Link("server4", "ingress") in plan.link_bytes_per_s
    timed = virtual_plan(one(*settings, "workload.timing_only=true"), conserved=False, model=None)
    assert timed.wire.nominal_bytes == 25_500_000


def test_servers_beside_workers_have_no_hosts_of_their_own() -> None:
    beside = ["cluster.servers=3", "cluster.colocated=true", "cluster.hosts_per_rack=4"]
    config = one(*beside, "network=ns1", "network.include_server=true")
    plan = virtual_plan(config, conserved=False, model=MODEL)
    assert plan.servers == ("w1", "w2", "w3")
    assert plan.hosts == ("scheduler", *(f"w{n}" for n in range(1, 9)))
    assert plan.context.topology.above["w1"] == "r1"
    alone = virtual_plan(one(*beside, "network=ns1"), conserved=False, model=MODEL)
    assert plan.rate_events == alone.rate_events


def test_settings_reach_the_plan() -> None:
    asked = {
        "message_s": 0.25,
        "hop_s": 0.5,
        "startup_s": 0.75,
        "goodput": 0.5,
        "share_spread": 0.25,
    }
    settings = [f"cluster.{key}={value}" for key, value in asked.items()]
    more = ["cluster.transport=reserved", "engine.max_updates=7", "engine.collective=messages"]
    scale = "policy.step_scale.laptop=3.0"
    plan = virtual_plan(one(*settings, *more, scale), conserved=False, model=MODEL)
    assert {key: getattr(plan, key) for key in asked} == asked
    assert (plan.reserved_rates, plan.max_updates, plan.collective) == (True, 7, "messages")
    assert plan.step_scale == 3.0


@pytest.mark.parametrize(
    ("overrides", "size"),
    [
        (["cluster=paper"], 999_424),  # 10 ms are 12.5 MB: 1 MB in whole pages
        (["cluster=laptop"], 28_672),  # 31,250
        (["cluster=laptop_contended"], 8_192),
        (["engine.chunk_bytes=5000000"], 5_000_000),
    ],
)
def test_a_chunk_lasts_about_ten_milliseconds_and_is_at_most_a_megabyte(
    overrides: list[str], size: int
) -> None:
    assert chunk_bytes(one(*overrides)) == size


def test_one_switch_has_two_links_a_host() -> None:
    plan = virtual_plan(one("cluster.workers=2"), conserved=False, model=MODEL)
    assert plan.hosts == ("scheduler", "server", "w1", "w2")
    assert plan.link_bytes_per_s == {
        Link(host, way): 3.125e6 for host in plan.hosts for way in ("egress", "ingress")
    }
    assert plan.context.line_bytes_per_s == dict.fromkeys(plan.hosts, 3.125e6)
    assert plan.context.topology.path("w1", "w2") == (Link("w1", "egress"), Link("w2", "ingress"))


def test_racks_are_filled_in_order_and_have_uplinks() -> None:
    racks = ["cluster.workers=5", "cluster.hosts_per_rack=2"]
    plan = virtual_plan(one(*racks), conserved=False, model=MODEL)
    assert plan.context.topology.above == {
        "w1": "r1",
        "w2": "r1",
        "w3": "r2",
        "w4": "r2",
        "w5": "r3",
    }
    ways = [Link(rack, way) for rack in ("r1", "r2", "r3") for way in ("up", "down")]
    assert [plan.link_bytes_per_s[link] for link in ways] == [2 * 3.125e6] * 6
    assert len(plan.link_bytes_per_s) == 2 * (2 + 5 + 3)
    assert plan.context.line_bytes_per_s["r3"] == 2 * 3.125e6
    narrow = virtual_plan(
        one(*racks, "cluster.uplink_bytes_per_s=1e6"), conserved=False, model=MODEL
    )
    assert {narrow.link_bytes_per_s[link] for link in ways} == {1e6}
    assert narrow.link_bytes_per_s[Link("w1", "egress")] == 3.125e6


def test_every_link_of_every_path_has_a_rate() -> None:
    plan = virtual_plan(
        one("cluster.workers=7", "cluster.hosts_per_rack=3"), conserved=False, model=MODEL
    )
    hosts, path = plan.hosts, plan.context.topology.path
    used = {link for src in hosts for dst in hosts if src != dst for link in path(src, dst)}
    assert used <= set(plan.link_bytes_per_s)


def test_both_engines_live_through_the_same_stragglers() -> None:
    asked = ["network=ns1", "compute=cs2", "seed=3"]
    virtual = virtual_plan(one(*asked), conserved=False, model=MODEL)
    ranks = validate([*asked, "engine=mpi"], multirun=False)[0]
    stragglers = ComputeStragglers(0.2, 8.0)
    for worker, iteration in ((0, 0), (5, 255), (5, 256), (7, 1000)):
        expected = 0.32 * compute_factor(stragglers, 3, worker, iteration)
        assert virtual.computation_s(worker, iteration) == expected
        assert computation_s(ranks)(worker, iteration) == expected
    assert virtual.rate_events
    assert {event.factor for event in virtual.rate_events} == {0.05, 1.0}


@pytest.mark.parametrize(("asked", "bound"), [("none", None), ("auto", 14), ("3", 3)])
def test_the_policy_is_told_its_bound_as_a_number_or_none(asked: str, bound: int | None) -> None:
    plan = virtual_plan(one(f"policy.delay_bound={asked}"), conserved=False, model=MODEL)
    assert plan.context.options["delay_bound"] == bound


def test_the_plan_is_a_function_of_the_settings() -> None:
    config = one("network=ns3", "cluster.workers=40")
    first, second = (virtual_plan(config, conserved=False, model=MODEL) for _ in range(2))
    assert dataclasses.replace(first, computation_s=second.computation_s) == second
