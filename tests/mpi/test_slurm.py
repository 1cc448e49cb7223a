"""Sweeps by Hydra's submitit launchers: on this machine, and as jobs of a real Slurm."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.paths import ROOT
from mlfabric.checkpoints import Checkpoints
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


@pytest.mark.timeout(300)
def test_a_job_that_is_requeued_goes_on(tmp_path: Path, cluster: dict[str, str]) -> None:
    run_dir, env = tmp_path / "run", {**os.environ, **cluster}
    settings = ["workload=plda_sotu", "engine=virtual", "engine.max_seconds=20", "tracking=none"]
    goes_on = ["resume=auto", "engine.checkpoint_interval_s=0.5", f"hydra.run.dir={run_dir}"]
    line = shlex.join([sys.executable, "-m", "experiments.run", *settings, *goes_on])
    asked = ["sbatch", "--parsable", "--requeue", f"--output={tmp_path}/job.log"]
    job = subprocess.run(
        [*asked, f"--chdir={ROOT}", "--open-mode=append", f"--wrap=exec {line}"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    wait_for(lambda: Checkpoints(run_dir).latest() is not None)
    subprocess.run(["scontrol", "requeue", job], env=env, check=True)
    now = ["scontrol", "update", f"JobId={job}", "StartTime=now"]  # else in two minutes
    wait_for(lambda: subprocess.run(now, env=env, capture_output=True).returncode == 0)
    wait_for(lambda: (run_dir / "run.json").exists() and "finished" in status_in(run_dir))
    first, second = json.loads((run_dir / "run.json").read_text())["parts"]
    assert first["ended"] in ("killed", "interrupted")
    assert 0 < second["from_s"] < 20


def status_in(run_dir: Path) -> str:
    return str(json.loads((run_dir / "run.json").read_text())["status"])


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)
