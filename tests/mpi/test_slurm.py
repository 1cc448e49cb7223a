"""Sweeps by Hydra's submitit launchers: on this machine, and as jobs of a real Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.paths import ROOT
from tests.support import slurm

SHORT = ["workload=plda_sotu", "policy=mlfabric_a", "cluster.workers=3", "engine.max_seconds=6"]


@pytest.fixture
def cluster() -> Iterator[dict[str, str]]:
    """What a client of the cluster needs in its environment."""
    if lacking := slurm.missing():
        pytest.skip(f"Slurm is not installed (slurm-wlm, munge): no {', '.join(lacking)}")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        with slurm.slurm(Path(folder)) as env:
            yield env
        assert slurm.leftovers(Path(folder)) == []


def sweep(folder: Path, *overrides: str, **env: str) -> subprocess.CompletedProcess[str]:
    places = [f"tracking.uri=sqlite:///{folder}/mlflow.db", f"hydra.sweep.dir={folder}/sweep"]
    return subprocess.run(
        [sys.executable, "-m", "experiments.run", "-m", *places, *overrides],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=280,
    )


def summaries(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("sweep/*/run.json"))]


@pytest.mark.timeout(300)
def test_a_job_a_run_in_an_allocation_with_stragglers_and_without_root(
    tmp_path: Path, cluster: dict[str, str]
) -> None:
    links = ["cluster=slurm", "cluster.bandwidth_bytes_per_s=3.125e6", "network=ns1"]
    done = sweep(
        tmp_path,
        *["hydra/launcher=submitit_slurm", "hydra.launcher.cpus_per_task=4", "seed=0,1"],
        *[*SHORT, *links, "engine.emulation=userspace"],
        **cluster,
    )
    found = summaries(tmp_path)
    assert len(found) == 2, done.stderr
    for summary in found:
        assert summary["status"] in ("finished", "invalid"), summary  # the machine may be busy
        assert (summary["cluster"], summary["emulation"]) == ("slurm", "userspace")
        assert summary["updates_applied"] > 0
    hosts = {path.read_text() for path in tmp_path.glob("sweep/*/hosts")}
    assert hosts == {f"{slurm.NODE}\n"}
    assert "of 2 runs finished" in done.stderr


@pytest.mark.timeout(300)
def test_the_local_executor_does_without_slurm(tmp_path: Path) -> None:
    timed = ["engine=virtual", "cluster=paper", "workload=resnet_digits", "engine.max_seconds=5"]
    done = sweep(
        tmp_path,
        *["hydra/launcher=submitit_local", "policy=async_ps", "workload.timing_only=true"],
        *[*timed, "seed=0,1"],
    )
    assert done.returncode == 0, done.stderr
    assert [summary["status"] for summary in summaries(tmp_path)] == ["finished"] * 2


def test_outside_an_allocation_a_run_says_where_it_must_be(tmp_path: Path) -> None:
    done = sweep(tmp_path, *SHORT, "cluster=slurm", "seed=0,1")
    assert done.returncode == 1
    assert "cluster=slurm: must be started in a Slurm allocation" in done.stderr
