"""Real ranks that go on from a checkpoint: nothing is counted twice, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.part_files import go_back_to
from mlfabric.checkpoints import Checkpoints
from mlfabric.payload import even_cuts
from tests.mpi.programs.count_run import SIZE
from tests.mpi.test_ranks import (
    COLLECTIVE,
    count_run,
    held,
    rows,
    snapshots,
)

OF_EACH_KIND = (
    *("async_ps", "ssp", "sync_ps", "ring_allreduce", "mpi_allreduce"),
    *("mlfabric_a pipelined", "mlfabric_s", "mlfabric_ssp"),
)

ADDED = 10
"""By one update, to the model's entries."""


def in_two_parts(run_dir, policy, hosts, fail="saved", **settings):
    """A run whose ranks die once there is a checkpoint, and which goes on from that."""
    done = count_run(run_dir, len(hosts), policy, fail, **settings)
    assert done.returncode != 0
    checkpoint = Checkpoints(run_dir).latest()
    assert checkpoint is not None, done.stderr
    assert Checkpoints(run_dir).parts(checkpoint.number) == set(hosts)
    go_back_to(checkpoint, hosts, run_dir, 2)
    before = rows(run_dir, "update")
    assert all(row["resolved_s"] <= checkpoint.elapsed_s for row in before)
    (run_dir / "model0.npy").unlink(missing_ok=True)
    done = count_run(run_dir, len(hosts), policy, fail, **settings)
    assert done.returncode == 0, done.stderr
    return before


def names(ranks, servers=1):
    own = ["server1"] if servers == 1 else [f"server{n + 1}" for n in range(servers)]
    return ["scheduler", *own, *(f"w{n + 1}" for n in range(ranks - 1 - servers))]


@pytest.mark.parametrize("policy", OF_EACH_KIND)
def test_every_model_holds_exactly_the_updates_applied(tmp_path, policy):
    before = in_two_parts(tmp_path, policy, names(6))
    updates = rows(tmp_path, "update")
    assert len(updates) > len(before) > 0
    keys = [(row["worker"], row["iteration"]) for row in updates]
    assert len(set(keys)) == len(keys), "an update has two fates"
    found = list(snapshots(tmp_path))
    last, model = found[-1]
    assert last > max(row["version_applied"] or 0 for row in before)
    for version, model in found:
        expected = version if policy in COLLECTIVE else held(updates, version)
        assert model.sum() == ADDED * expected
    if policy not in COLLECTIVE:
        applied = sorted(r["version_applied"] for r in updates if r["status"] == "applied")
        assert len(applied) == last
        (totals,) = rows(tmp_path, "totals")
        assert (totals["applied"], totals["dropped"]) == (last, len(updates) - last)


@pytest.mark.parametrize("policy", ["async_ps", "sync_ps", "mlfabric_a pipelined"])
def test_so_does_every_server_s_share(tmp_path, policy):
    in_two_parts(tmp_path, policy, names(6, servers=2), fail="dense saved", servers=2)
    applied = [row for row in rows(tmp_path, "update") if row["status"] == "applied"]
    totals = sorted(rows(tmp_path, "totals"), key=lambda row: row["shard"])
    model = list(snapshots(tmp_path))[-1][1]
    for (begin, end), total in zip(even_cuts(0, SIZE, 2), totals, strict=True):
        own = [row for row in applied if row["shard"] == total["shard"]]
        assert len(own) == total["version"] > 8
        held = sum(row["worker"] + 1 for row in own)
        np.testing.assert_array_equal(model[begin:end], np.full_like(model[begin:end], held))
