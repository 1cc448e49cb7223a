"""Ranks are killed in mid-run: the run goes on, ends valid and tells what happened."""

from __future__ import annotations

import json

import pytest

from experiments.faults import real
from experiments.faults.invariants import complaint, of
from experiments.run import main
from mlfabric.emulation.availability import unavailable

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=f"{unavailable()}")

QUICK = ["engine=mpi", "engine.max_seconds=8", "fault.at_s=4", "tracking=none", "seed=0"]


def carried_out(folder, *settings):
    status = main([*settings, *QUICK, f"hydra.run.dir={folder}"])
    return status, json.loads((folder / "run.json").read_text())


@pytest.mark.parametrize(
    ("fault", "settings"),
    [
        ("server_kill", ["replication=bounded", "workload=plda_sotu"]),
        ("server_kill", ["replication=chain", "policy=mlfabric_ssp", "workload=resnet_mnist5k"]),
        ("replica_kill", ["replication=bounded", "workload=plda_sotu"]),
        ("worker_kill", ["policy=async_ps", "workload=plda_sotu", "fault.host=w3"]),
        ("aggregator_kill", ["workload=resnet_mnist5k", "policy.aggregation=pipelined"]),
    ],
)
def test_a_run_survives_a_killed_rank(tmp_path, fault, settings):
    status, told = carried_out(tmp_path, f"fault={fault}", *settings)
    assert status == 0, told["reason"]
    assert told["status"] == "finished"
    assert told["fault_s"] == pytest.approx(4.0, abs=2.5)
    assert 0 < told["detection_s"] < 1.0
    assert told["detection_s"] < told["recovery_s"] < 3.0
    assert told["lost_updates"] == 0
    assert told["fault_host"] in ("server", "replica", *(f"w{n}" for n in range(1, 9)))


def test_without_the_scheduler_a_run_ends_and_says_why(tmp_path):
    status, told = carried_out(tmp_path, "fault=scheduler_kill", "workload=plda_sotu")
    assert status == 1
    assert told["status"] == "failed"
    assert "scheduler" in told["reason"]


def test_a_link_that_is_down_for_a_second_costs_no_host(tmp_path):
    status, told = carried_out(
        tmp_path, "fault=partition", "fault.duration_s=1", "workload=plda_sotu"
    )
    assert status == 0, told["reason"]
    assert (told["fault_host"], told["detection_s"]) == ("w1", None)


def test_three_ranks_one_after_another():
    """As the campaign has it: the server, whoever sums, a slow worker; nothing is half applied."""
    schedule = real.real_schedule(100_000)
    assert [fault.host for fault in schedule.faults] == ["server", None, "w4"]
    rows, seen = real.carry_out(schedule)
    assert complaint(schedule, rows, seen) is None
    killed = {row["due_s"]: row["host"] for row in of(rows, "fault")}
    server, summing, slow = (fault.at_s for fault in schedule.faults)
    assert killed[server] == "server"
    assert killed[summing] in {"w1", "w2", "w3", "w4", "w5", "w6"}
    assert killed.get(slow, killed[summing]) == "w4"  # which may be the one that summed
    assert sorted(row["host"] for row in of(rows, "loss")) == sorted(killed.values())
