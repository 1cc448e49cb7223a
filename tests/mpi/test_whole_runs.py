"""Whole runs by the command line: real ranks, shaped network, real data, MLflow; and their ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from experiments import execute_mpi
from experiments.mpi_library import RANK_VARIABLES, library
from experiments.paths import ROOT
from experiments.run import main
from mlfabric.emulation.availability import unavailable
from mlfabric.errors import SettingError
from workloads.plda import generate

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"no namespaces: {unavailable()}")

FRAMEWORKS = ("libtorch", "tensorflow")
WORKERS = 3
LEFTOVERS_S = 5.0


def command(run_dir: Path, *overrides: str) -> list[str]:
    settings = [
        *("workload=plda_sotu", "network=ns1", f"cluster.workers={WORKERS}"),
        *("engine.snapshot_interval_s=1", f"hydra.run.dir={run_dir}"),
        f"tracking.uri=sqlite:///{run_dir.parent}/mlflow.db",
    ]
    return [sys.executable, "-m", "experiments.run", *settings, *overrides]


class Started:
    """A run under way; its output is in a file, as nobody reads a pipe meanwhile."""

    def __init__(self, run_dir: Path, *overrides: str, under: Sequence[str] = ()) -> None:
        self.run_dir = run_dir
        self.log = run_dir.with_suffix(".log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*under, *command(run_dir, *overrides)], cwd=ROOT, stdout=log, stderr=log
            )

    def finished(self) -> dict[str, Any]:
        """The run.json of a run that must end well."""
        assert self.process.wait(timeout=150) == 0, self.log.read_text()
        result: dict[str, Any] = json.loads((self.run_dir / "run.json").read_text())
        assert result["status"] == "finished"
        return result

    def wait_for_updates(self) -> None:
        deadline = time.monotonic() + 90
        while not self._applied():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def _applied(self) -> int:
        try:
            return json.loads((self.run_dir / "progress.json").read_text())["applied"]
        except FileNotFoundError:
            return 0

    def processes(self) -> dict[int, str]:
        """Processes that name the run's folder: {pid: command line}."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except OSError:
                    continue
                if str(self.run_dir) in line:
                    found[int(entry.name)] = line
        return found

    def rank(self, number: int) -> int:
        """Process id of a rank."""
        wanted = {f"{name}={number}".encode() for name in RANK_VARIABLES}
        for pid, line in self.processes().items():
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if "-m experiments.rank" in line and "mpirun" not in line and wanted & set(words):
                return pid
        raise AssertionError(f"no process is rank {number}: {self.processes()}")

    def nothing_left(self) -> None:
        deadline = time.monotonic() + LEFTOVERS_S
        while left := self.processes():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    """Starts runs in folders of their own; no network of theirs may be seen outside, ever."""
    interfaces, runs = sorted(os.listdir("/sys/class/net")), []

    def starter(name: str, *overrides: str, under: Sequence[str] = ()) -> Started:
        runs.append(Started(tmp_path / name, *overrides, under=under))
        return runs[-1]

    yield starter
    for run in runs:
        run.process.kill()
        run.process.wait()
        run.nothing_left()
    assert sorted(os.listdir("/sys/class/net")) == interfaces


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ("async_ps", "engine.mpi=mpich"),
        ("ring_allreduce", "engine.mpi=openmpi"),
        ("mlfabric_a", "policy.aggregation=pipelined"),
    ],
)
def test_a_run_ends_valid_and_conserves_its_counts(start, policy, more):
    run = start("run", f"policy={policy}", more, "compute=cs2", "engine.max_seconds=6")
    assert run.process.wait(timeout=120) == 0, run.log.read_text()
    result = json.loads((run.run_dir / "run.json").read_text())
    assert result["status"] == "finished"
    assert (result["policy"], result["network"], result["compute"]) == (policy, "ns1", "cs2")
    assert result["updates_applied"] > 5
    assert result["push_bytes"] > 0
    conserved(run.run_dir)
    traced(run.run_dir, result)
    calibration = json.loads((run.run_dir / "calibration.json").read_text())
    assert set(calibration["hosts"]) == {"scheduler", "server", "w1", "w2", "w3"}
    tracked = MlflowClient(f"sqlite:///{run.run_dir.parent}/mlflow.db").get_run(
        result["mlflow_run_id"]
    )
    assert tracked.info.status == "FINISHED"
    assert tracked.data.params["policy.name"] == policy


def test_links_can_be_shaped_without_namespaces(start):
    shaping = ("engine.emulation=userspace", "policy=mlfabric_allreduce", "engine.max_seconds=6")
    run = start("run", *shaping)
    assert run.process.wait(timeout=120) == 0, run.log.read_text()
    result = json.loads((run.run_dir / "run.json").read_text())
    assert (result["status"], result["emulation"]) == ("finished", "userspace")
    assert (run.run_dir / "network_trace.csv").exists()
    conserved(run.run_dir)


AS_A_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
"""Whoever runs the tests becomes an ordinary user, without any capability."""


def may_become_a_user() -> bool:
    try:
        return subprocess.run([*AS_A_USER, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not may_become_a_user(), reason="no user namespace with a user's number")
@pytest.mark.parametrize("emulation", ["auto", "userspace"])
def test_an_ordinary_user_needs_no_root(start, emulation):
    uid = subprocess.run([*AS_A_USER, "id", "-u"], capture_output=True, text=True).stdout
    assert uid.strip() == "1000"
    asked = ("policy=mlfabric_a", f"engine.emulation={emulation}", "engine.max_seconds=6")
    result = start("run", *asked, under=AS_A_USER).finished()
    assert result["emulation"] == {"auto": "netns"}.get(emulation, emulation)
    assert result["updates_applied"] > 5


def system_mpi() -> str | None:
    """Why there is no MPI of the system's; None where there is one."""
    try:
        library("system")
    except SettingError as error:
        return str(error)
    return None


@pytest.mark.skipif(bool(system_mpi()), reason=f"{system_mpi()}")
def test_an_mpi_of_the_system_serves_as_well(start):
    run = start("run", "policy=mlfabric_a", "engine.mpi=system", "engine.max_seconds=6")
    assert run.finished()["updates_applied"] > 5
    told = json.loads((run.run_dir / "environment.json").read_text())["mpi"]
    assert told == library("system").version()


def test_a_corpus_of_files_is_trained_on_by_ranks(start, tmp_path):
    shape = ["--documents=600", "--words=500", "--tokens=60000", "--topics=5"]
    assert generate.main([str(tmp_path / "corpus"), *shape]) == 0
    asked = ("workload=plda_nytimes", f"workload.data_dir={tmp_path}/corpus", "policy=async_ps")
    run = start("run", *asked, "workload.minibatch_tokens=5000", "engine.max_seconds=6")
    result = run.finished()
    assert result["updates_applied"] > 5
    conserved(run.run_dir)
    told = json.loads((run.run_dir / "environment.json").read_text())["data"]
    assert told.endswith("docword.synthetic.txt.gz")
    assert "synthetic" in (run.run_dir / "report" / "topics.txt").read_text()


def test_ranks_train_in_tensorflow(start):
    pytest.importorskip("tensorflow")
    asked = ("workload=resnet_digits", "workload.framework=tensorflow", "policy=mlfabric_a")
    result = start("run", *asked, "engine.max_seconds=8").finished()
    assert result["framework"] == "tensorflow"
    assert result["updates_applied"] > 5


def conserved(run_dir: Path) -> None:
    """Every snapshot counts every token once, in a word and in a topic."""
    topics = json.loads((run_dir / "config.json").read_text())["workload"]["topics"]
    tokens = np.load(run_dir / "model0.npy")[-topics:].sum()
    paths = sorted((run_dir / "snapshots").glob("*.npy"))
    assert len(paths) >= 4
    for path in paths:
        model = np.load(path)
        assert model.min() >= 0
        assert model[-topics:].sum() == model[:-topics].sum() == tokens
        np.testing.assert_array_equal(model[:-topics].reshape(-1, topics).sum(0), model[-topics:])


def traced(run_dir: Path, result: dict) -> None:
    trace = pd.read_parquet(run_dir / "trace.parquet")
    assert {"kind", "src", "dst", "next_hop", "bytes", "requested_s", "started_s"} <= set(trace)
    assert (trace["ended_s"] >= trace["started_s"]).all()
    assert trace["bytes"].sum() == result["push_bytes"] + result["pull_bytes"]
    assert (trace["started_s"] >= trace["requested_s"]).all()
    hosts = {"server", "w1", "w2", "w3"}
    assert set(trace["src"]) | set(trace["next_hop"]) <= hosts
    updates = pd.read_parquet(run_dir / "updates.parquet")
    missing = result["updates_applied"] - (updates["status"] == "applied").sum()
    # The workers of a synchronous sum learn at slightly different times that the run is over.
    assert 0 <= missing < (WORKERS if result["policy"] == "ring_allreduce" else 1)


def test_a_killed_rank_ends_the_run_and_is_named(start):
    run = start("run", "policy=mlfabric_a", "engine.max_seconds=100")
    run.wait_for_updates()
    # Neither loads a framework, and the server does not load the compiled planner either.
    for number, unwanted in ((0, FRAMEWORKS), (1, (*FRAMEWORKS, "llvmlite"))):
        maps = Path(f"/proc/{run.rank(number)}/maps").read_text()
        assert not any(name in maps for name in unwanted)
    os.kill(run.rank(3), signal.SIGKILL)
    killed_s = time.monotonic()
    assert run.process.wait(timeout=60) == 1
    assert time.monotonic() - killed_s < 10
    assert "rank 3 (w2) was killed by SIGKILL" in run.log.read_text()
    result = json.loads((run.run_dir / "run.json").read_text())
    assert result["status"] == "failed"
    run.nothing_left()


def test_a_killed_rank_of_mpich_is_told_of(start):
    run = start("run", "policy=mlfabric_a", "engine.max_seconds=100", "engine.mpi=mpich")
    run.wait_for_updates()
    pid = run.rank(3)
    os.kill(pid, signal.SIGKILL)
    assert run.process.wait(timeout=60) == 1
    assert "a rank (process " in run.log.read_text()
    assert "was killed by SIGKILL" in run.log.read_text()
    environment = json.loads((run.run_dir / "environment.json").read_text())
    assert environment["mpi"].startswith("MPICH 5")
    run.nothing_left()


def test_a_disk_that_fills_ends_the_run_and_is_named(start, tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(run_dir)]
    if subprocess.run(small, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk")
    try:
        run = start("run", "workload=resnet_digits", "engine.max_seconds=30")
        assert run.process.wait(timeout=120) == 1
        told = run.log.read_text()
        assert "o space " in told.partition("failed: ")[2].splitlines()[0], told
        run.nothing_left()
        assert not [*run_dir.rglob("*.tmp")]
        assert {np.load(path).shape for path in run_dir.glob("snapshots/*.npy")} == {
            np.load(run_dir / "model0.npy").shape
        }
        result = json.loads((run_dir / "run.json").read_text())
        assert result["status"] == "failed"
    finally:
        subprocess.run(["umount", "--lazy", str(run_dir)], check=True)


def test_models_that_memory_cannot_hold_are_told_before_ranks_start(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(execute_mpi, "memory_bytes", lambda: 10_000_000)  # 7 models take 34 MB
    run_dir = tmp_path / "run"
    settings = ["workload=plda_sotu", f"cluster.workers={WORKERS}", "tracking=none"]
    assert main([*settings, f"hydra.run.dir={run_dir}"]) == 1
    told = capsys.readouterr().err
    assert "plda_sotu: a model takes 0.00" in told
    assert "cluster.workers=3 need 7 of them at least; must fit into the 0.01 GB of memory" in told
    assert not (run_dir / "records").exists()
    assert not (run_dir / "model0.npy").exists()


def test_a_killed_launcher_takes_everything_with_it(start):
    run = start("run", "policy=async_ps", "engine.max_seconds=100")
    run.wait_for_updates()
    assert len(run.processes()) > WORKERS + 2
    run.process.kill()
    run.process.wait()
    run.nothing_left()


def test_an_interrupt_ends_the_run_in_order(start):
    run = start("run", "policy=ring_allreduce", "engine.max_seconds=100")
    run.wait_for_updates()
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(timeout=30) == 130
    assert json.loads((run.run_dir / "run.json").read_text())["status"] == "failed"
    run.nothing_left()


def test_two_launches_at_once_take_turns(start):
    """On a busy machine either may be invalid for computing too long, but neither may break."""
    runs = [start(name, "engine.max_seconds=5") for name in ("one", "two")]
    for run in runs:
        assert run.process.wait(timeout=170) in (0, 1)
        result = json.loads((run.run_dir / "run.json").read_text())
        assert result["status"] in ("finished", "invalid"), run.log.read_text()
        assert result["updates_applied"] > 0
        conserved(run.run_dir)
    waits = "waiting for another run's ranks on this machine to end"
    assert sum(waits in run.log.read_text() for run in runs) == 1


def test_a_run_stops_at_its_target(start):
    """Any snapshot of a trained model reaches this one."""
    run = start(
        "run",
        *("engine.max_seconds=100", "engine.stop_at_target=true"),
        "workload.targets.laptop=-9.0",
    )
    assert run.process.wait(timeout=120) == 0, run.log.read_text()
    result = json.loads((run.run_dir / "run.json").read_text())
    assert result["elapsed_s"] < 60
    assert result["time_to_target_s"] > 0
    assert result["updates_applied"] > 0
