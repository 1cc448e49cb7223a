"""Real MPI ranks at several counts: transport, whole runs, failures."""

from __future__ import annotations

import json
import os
import subprocess
import time

import numpy as np
import pytest

from experiments.mpi_library import library
from experiments.mpiexec import environment, mpi_command
from experiments.paths import ROOT
from experiments.shards import ShardedSnapshots
from mlfabric import policies
from mlfabric.payload import even_cuts
from tests.mpi.programs.count_run import SIZE, Counter

POLICIES = policies.names()
COLLECTIVE = [policy for policy in POLICIES if policies.is_collective(policy)]
PIPELINED = [f"{policy} pipelined" for policy in POLICIES if policies.place(policy) == "scheduler"]
ONE_OF_A_KIND = ("async_ps", "mlfabric_a", "ring_allreduce", "mpi_allreduce")
MPIS = ("openmpi", "mpich")


def started(ranks, *program, mpi="openmpi", timeout=60):
    chosen = library(mpi)
    command = mpi_command(ranks, "none", ["-m", *map(str, program)], chosen)
    env = {**os.environ, **environment("none", chosen)}
    return subprocess.run(
        command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=timeout
    )


def count_run(run_dir, ranks, policy, fail="nothing", mpi="openmpi", servers=1):
    dtype = np.float32 if fail.startswith("dense") or fail == "paced" else np.int32
    np.save(run_dir / "model0.npy", np.zeros(50_000, dtype))
    return started(ranks, "tests.mpi.programs.count_run", run_dir, policy, fail, servers, mpi=mpi)


def rows(run_dir, kind):
    paths = sorted((run_dir / "records").glob("*.jsonl"))
    found = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [row for row in found if row["row"] == kind]


def snapshots(run_dir):
    """(version, model) of each that was whole."""
    shards = len(list((run_dir / "snapshots").glob("index-*.jsonl")))
    for model, version, _ in ShardedSnapshots(run_dir / "snapshots", shards).models():
        yield version, model


def held(updates, version):
    """How many updates a model of this version holds: a dropped delta is in the next one."""
    iterations = {}
    for row in updates:
        if row["status"] == "applied" and row["version_applied"] < version:
            before = iterations.get(row["worker"], 0)
            iterations[row["worker"]] = max(before, row["iteration"] + 1)
    return sum(iterations.values())


@pytest.mark.parametrize(
    ("ranks", "mpi"), [(2, "openmpi"), (4, "openmpi"), (7, "openmpi"), (4, "mpich")]
)
def test_transport(ranks, mpi):
    done = started(ranks, "tests.mpi.programs.transport_check", mpi=mpi)
    assert done.returncode == 0, done.stderr
    assert "all right" in done.stdout


@pytest.mark.parametrize(
    ("policy", "ranks", "mpi"),
    [(policy, 7, "openmpi") for policy in (*POLICIES, *PIPELINED)]
    + [(policy, 3, "openmpi") for policy in ("async_ps", "sync_ps", "mlfabric_a")]
    + [(policy, 5, "mpich") for policy in ONE_OF_A_KIND],
)
def test_every_model_holds_exactly_the_updates_applied(tmp_path, policy, ranks, mpi):
    done = count_run(tmp_path, ranks, policy, mpi=mpi)
    assert done.returncode == 0, done.stderr
    found = list(snapshots(tmp_path))
    assert len(found) >= 3
    for _, model in found:
        assert model.min() >= 0
    last, model = found[-1]
    updates = rows(tmp_path, "update")
    applied = [row for row in updates if row["status"] == "applied"]
    assert last > 2 * (ranks - 2)
    if policy in COLLECTIVE:  # workers are told one by one that the run is over: rows may lack
        assert model.sum() == 10 * last
    else:
        assert model.sum() == 10 * held(updates, last)
    assert abs(len(applied) - last) <= (ranks - 3 if policy in COLLECTIVE else 0)
    assert all(row["delay"] >= 0 for row in applied)
    transfers = rows(tmp_path, "transfer")
    assert transfers or policy == "mpi_allreduce"
    assert all(row["ended_s"] >= row["started_s"] for row in transfers)


def test_a_tight_bound_drops_updates_and_loses_no_count(tmp_path):
    """What is dropped is carried: each worker's applied pushes hold all its earlier counts."""
    done = count_run(tmp_path, 8, "mlfabric_a", "tight")
    assert done.returncode == 0, done.stderr
    updates = rows(tmp_path, "update")
    applied = [row for row in updates if row["status"] == "applied"]
    assert len(applied) < len(updates), "nothing was dropped"
    assert all(row["delay"] <= 2 for row in applied)
    last_applied = {row["worker"]: row["iteration"] for row in applied}
    _, model = list(snapshots(tmp_path))[-1]
    assert model.sum() == 10 * sum(iteration + 1 for iteration in last_applied.values())


@pytest.mark.parametrize("policy", [*COLLECTIVE, *PIPELINED, "sync_backup", "ssp"])
def test_dense_sums_are_right_wherever_they_are_made(tmp_path, policy):
    done = count_run(tmp_path, 6, policy, "dense")
    assert done.returncode == 0, done.stderr
    last, model = list(snapshots(tmp_path))[-1]
    updates = [row for row in rows(tmp_path, "update") if row["status"] == "applied"]
    if policy in COLLECTIVE:  # the workers are told one by one that the run is over
        total = last // 4 * (1 + 2 + 3 + 4)
    else:
        held = [row["worker"] for row in updates if row["version_applied"] < last]
        total = sum(worker + 1 for worker in held)
    assert last > 8
    np.testing.assert_array_equal(model, np.full_like(model, total))


SERVED = [policy for policy in (*POLICIES, *PIPELINED) if policy not in COLLECTIVE]


@pytest.mark.parametrize(
    ("policy", "ranks", "servers", "mpi"),
    [(policy, 7, 2, "openmpi") for policy in SERVED]
    + [(policy, 5, "beside", "openmpi") for policy in SERVED]
    + [("mlfabric_a", 5, "beside", "mpich")],
)
def test_every_server_s_share_holds_exactly_what_was_applied_to_it(
    tmp_path, policy, ranks, servers, mpi
):
    done = count_run(tmp_path, ranks, policy, "dense", mpi=mpi, servers=servers)
    assert done.returncode == 0, done.stderr
    last, model = list(snapshots(tmp_path))[-1]
    totals = sorted(rows(tmp_path, "totals"), key=lambda row: row["shard"])
    assert len(totals) == (ranks - 1 if servers == "beside" else servers)
    assert last == sum(row["version"] for row in totals) // len(totals) > 8
    applied = [row for row in rows(tmp_path, "update") if row["status"] == "applied"]
    for (begin, end), total in zip(even_cuts(0, SIZE, len(totals)), totals, strict=True):
        own = [row for row in applied if row["shard"] == total["shard"]]
        held = sum(row["worker"] + 1 for row in own if row["version_applied"] < total["version"])
        np.testing.assert_array_equal(model[begin:end], np.full_like(model[begin:end], held))


def test_counts_dropped_by_one_server_and_not_by_another_are_not_lost(tmp_path):
    done = count_run(tmp_path, 8, "mlfabric_a", "tight", servers="beside")
    assert done.returncode == 0, done.stderr
    updates = rows(tmp_path, "update")
    fates: dict[tuple[int, int], set[str]] = {}
    for row in updates:
        fates.setdefault((row["worker"], row["iteration"]), set()).add(row["status"])
    assert {"applied", "dropped"} in fates.values(), "all servers came to the same"
    _, model = list(snapshots(tmp_path))[-1]
    for shard, (begin, end) in enumerate(even_cuts(0, SIZE, 7)):
        expected = 0
        for worker in range(7):
            own = [r for r in updates if (r["shard"], r["worker"]) == (shard, worker)]
            applied = [r["iteration"] for r in own if r["status"] == "applied"]
            counter = Counter(worker, "nothing")
            for _ in range(max(applied, default=-1) + 1):
                indices, _ = counter.compute(np.zeros(1))
                expected += int(((indices >= begin) & (indices < end)).sum())
        assert model[begin:end].sum() == expected


@pytest.mark.parametrize(
    ("policy", "ranks", "servers"),
    [
        ("async_ps", 6, 1),
        ("mlfabric_a pipelined", 6, 1),
        ("mlfabric_allreduce", 6, 1),
        ("mlfabric_a", 5, "beside"),
    ],
)
def test_links_shaped_in_user_space_carry_what_they_are_to(tmp_path, policy, ranks, servers):
    done = count_run(tmp_path, ranks, policy, "paced", servers=servers)
    assert done.returncode == 0, done.stderr
    moved, until = {}, max(row["ended_s"] for row in rows(tmp_path, "transfer"))
    for row in rows(tmp_path, "transfer"):
        if row["src"] == row["next_hop"]:
            continue
        for link in ((row["src"], "egress"), (row["next_hop"], "ingress")):
            moved[link] = moved.get(link, 0) + row["bytes"]
    rate = 2e6 * 1448 / 1514
    slow = {link: 4 if link[0] == "w1" else 1 for link in moved}
    shares = {link: n * slow[link] / rate / until for link, n in moved.items()}
    assert max(shares.values()) < 1.03
    assert max(shares.values()) > 0.6  # the run is cut off within transfers
    last, model = list(snapshots(tmp_path))[-1]
    assert last > 4
    parts = 1 if servers == 1 else ranks - 1
    for begin, end in even_cuts(0, SIZE, parts):
        assert model[begin:end].min() == model[begin:end].max() > 0


@pytest.mark.parametrize("policy", ONE_OF_A_KIND)
def test_a_rank_that_raises_ends_the_job_with_its_number_and_traceback(tmp_path, policy):
    started = time.monotonic()
    done = count_run(tmp_path, 5, policy, "raise")
    assert done.returncode != 0
    story = (tmp_path / "failure-3.txt").read_text()
    assert story.startswith("rank 3: Traceback")
    assert "worker 1 had enough" in story.splitlines()[-1]
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("policy", ["async_ps", "mlfabric_a", "ring_allreduce", "sync_ps"])
def test_the_watchdog_tells_who_waits_for_whom(tmp_path, policy):
    done = count_run(tmp_path, 4, policy, "hang")
    assert done.returncode != 0
    story = (tmp_path / "failure-0.txt").read_text().splitlines()[-1]
    if policy in ("ring_allreduce", "sync_ps"):
        waits = "update w1:3 to be" if policy == "sync_ps" else "messages of all-reduce 3"
        assert "nothing has moved" in story
        assert f"w1 waits for {waits}" in story
    else:  # the others go on without it, until the run is over
        assert "not all stop" in story
        assert "w1 waits" not in story
    assert "w2 waits for its computation of iteration 3" in story


@pytest.mark.parametrize("what", ["sync", "async", "ssp", "chain", "bounded"])
def test_the_calls_of_table_1(what):
    done = started(5, "tests.mpi.programs.api_check", what)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all right") == 5


def test_an_error_in_one_script_ends_them_all():
    done = started(4, "tests.mpi.programs.api_check", "raise", timeout=30)
    assert done.returncode != 0
    assert "ValueError: rank 1 had enough" in done.stderr


def test_a_script_that_leaves_while_others_sum_ends_them_all():
    begun = time.monotonic()
    done = started(3, "tests.mpi.programs.api_check", "leave", timeout=30)
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert "all-reduce 3 cannot be made: w2 left after 2; all must ask for as many" in told
    assert time.monotonic() - begun < 20


def test_a_receive_that_is_too_short_can_be_taken_back():
    done = started(2, "tests.mpi.programs.cancel_check")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "taken back\n"
