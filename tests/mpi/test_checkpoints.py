"""Real ranks that go on from a checkpoint: nothing is counted twice, and nothing is lost."""

from __future__ import annotations

import pytest

from experiments.part_files import go_back_to
from mlfabric.checkpoints import Checkpoints
from mlfabric.payload import even_cuts
from tests.mpi.programs.count_run import SIZE
from tests.mpi.test_ranks import (
    COLLECTIVE,
    PIPELINED,
    POLICIES,
    SERVED,
    count_run,
    held,
    rows,
    snapshots,
)

ADDED = 10
"""By one update, to the model's entries."""


def in_two_parts(run_dir, ranks, policy, hosts, **settings):
    """A run whose ranks die once there is a checkpoint, and which goes on from that."""
    done = count_run(run_dir, ranks, policy, "saved", **settings)
    assert done.returncode != 0
    checkpoint = Checkpoints(run_dir).latest()
    assert checkpoint is not None, done.stderr
    assert Checkpoints(run_dir).parts(checkpoint.number) == set(hosts)
    go_back_to(checkpoint, hosts, run_dir, 2)
    before = rows(run_dir, "update")
    assert all(row["resolved_s"] <= checkpoint.elapsed_s for row in before)
    (run_dir / "model0.npy").unlink(missing_ok=True)
    done = count_run(run_dir, ranks, policy, "saved", **settings)
    assert done.returncode == 0, done.stderr
    return before, checkpoint


def names(ranks, servers=1):
    own = ["server1"] if servers == 1 else [f"server{n + 1}" for n in range(servers)]
    return ["scheduler", *own, *(f"w{n + 1}" for n in range(ranks - 1 - servers))]


@pytest.mark.parametrize("policy", [*POLICIES, *PIPELINED])
def test_every_model_holds_exactly_the_updates_applied(tmp_path, policy):
    before, checkpoint = in_two_parts(tmp_path, 6, policy, names(6))
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


@pytest.mark.parametrize("policy", [p for p in SERVED if p not in ("sync_backup",)])
def test_so_does_every_server_s_share(tmp_path, policy):
    in_two_parts(tmp_path, 6, policy, names(6, servers=2), servers=2)
    updates = rows(tmp_path, "update")
    model = list(snapshots(tmp_path))[-1][1]
    for shard, (begin, end) in enumerate(even_cuts(0, SIZE, 2)):
        mine = [row for row in updates if row["shard"] == shard]
        keys = [(row["worker"], row["iteration"]) for row in mine]
        assert len(set(keys)) == len(keys)
        assert len(mine) > 10
        assert model[begin:end].min() >= 0
    assert model.sum() % ADDED == 0 or policy != "sync_ps"
