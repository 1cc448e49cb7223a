"""Runs recorded on a real MLflow server in a process of its own, artifacts through it, too."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from mlflow import MlflowClient

from analysis.load import load_runs, read_table
from experiments.paths import ROOT

RUN = ["engine=virtual", "cluster=paper", "workload=resnet_digits", "engine.max_seconds=4"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    address = f"http://127.0.0.1:{free_port()}"
    port = address.rpartition(":")[2]
    places = [f"sqlite:///{tmp_path}/mlflow.db", "--artifacts-destination", f"{tmp_path}/artifacts"]
    listens = ["--host", "127.0.0.1", "--port", port, "--workers", "1"]
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", *places, *listens],
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 90
        while not answers(f"{address}/health"):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def answers(address: str) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(address, timeout=2)
        return True
    return False


def sweep(address: str, folder: Path) -> subprocess.CompletedProcess[str]:
    places = [f"tracking.uri={address}", f"hydra.sweep.dir={folder}/sweep"]
    command = [sys.executable, "-m", "experiments.run", "-m", *places, *RUN]
    policies = "policy=ring_allreduce,async_ps"
    return subprocess.run(
        [*command, policies], cwd=ROOT, capture_output=True, text=True, timeout=170
    )


def test_a_sweep_is_recorded_on_a_server_and_read_back(server: str, tmp_path: Path) -> None:
    done = sweep(server, tmp_path)
    assert done.returncode == 0, done.stderr
    client = MlflowClient(server)
    experiment = client.get_experiment_by_name("mlfabric")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.kind = 'run'")
    assert [run.info.status for run in runs] == ["FINISHED"] * 2
    assert all(run.info.artifact_uri.startswith("mlflow-artifacts:") for run in runs)
    wanted = [run.data.tags["fingerprint"] for run in runs]
    loaded = load_runs(server, "mlfabric", wanted)
    assert list(loaded["status"]) == ["finished"] * 2
    for run in loaded.itertuples():
        assert len(read_table(run, "trace.parquet"))
    (parent,) = client.search_runs([experiment.experiment_id], "tags.kind = 'comparison'")
    assert {file.path for file in client.list_artifacts(parent.info.run_id)} == {
        *["comparison.json", "convergence.png", "convergence.pdf"]
    }


def test_a_server_that_is_not_there_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    done = sweep(f"http://127.0.0.1:{free_port()}", tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("tracking.uri=http://127.0.0.1:")
    assert not (tmp_path / "sweep").exists()
