"""Whole runs on the virtual clock: carried out in this process, recorded as those of ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from experiments import execute as execution
from experiments import execute_virtual
from experiments.build import build_workload
from experiments.execute import execute
from experiments.overrides import validate
from experiments.paths import ROOT
from experiments.schema import RunConfig
from workloads.base import Update, Vector

TABLES = ("trace", "updates", "computations", "metrics")
RUNS = ("first", "second", "fresh")


class Descent:
    """Sixteen numbers on their way to 0: each update takes a tenth off; the loss is their mean."""

    name = "descent"
    data = "none: numbers"
    metric_name = "loss"
    metric_goal = "min"
    conserved = False

    def prepare(self) -> None:
        pass

    def initial_model(self) -> Vector:
        return np.ones(16, np.float32)

    def trainer(self, worker: int, workers: int) -> Descent:
        assert 0 <= worker < workers
        return self

    def evaluator(self) -> Descent:
        return self

    def warm_up(self) -> None:
        pass

    def load(self) -> None:
        pass

    def compute(self, view: Vector) -> Update:
        return None, view * np.float32(-0.1)

    def evaluate(self, model: Vector) -> dict[str, float]:
        return {"loss": float(model.mean())}

    def report(self, model: Vector) -> dict[str, str]:
        return {"largest.txt": str(model.max())}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "build_workload", lambda settings, seed: Descent())


def overrides(store: str, *asked: str) -> list[str]:
    fixed = ["engine=virtual", "cluster=paper", "cluster.workers=4", "engine.max_seconds=12"]
    return [f"tracking.uri={store}", *fixed, "network=ns1", "compute=cs2", *asked]


def settings(store: str, *asked: str) -> RunConfig:
    return validate(overrides(store, *asked), multirun=False)[0]


def summary_of(run_dir: Path) -> dict[str, Any]:
    return json.loads((run_dir / "run.json").read_text())


@pytest.mark.parametrize(
    "policy",
    [
        ["policy=async_ps"],
        ["policy=ring_allreduce"],
        ["policy=mlfabric_a"],
        ["policy=mlfabric_a", "policy.aggregation=pipelined"],
        ["policy=mlfabric_a", "cluster.servers=2"],
        ["policy=async_ps", "cluster.servers=4", "cluster.colocated=true"],
    ],
    ids=lambda policy: " ".join(policy),
)
def test_a_run_is_finished_and_recorded(store: str, tmp_path: Path, policy: list[str]) -> None:
    outcome = execute(settings(store, *policy), tmp_path)
    assert outcome.status == "finished", outcome
    summary = summary_of(tmp_path)
    assert (summary["engine"], summary["emulation"]) == ("virtual", None)
    assert summary["elapsed_s"] == pytest.approx(12.0)
    assert summary["updates_applied"] > 4
    assert 0 < summary["final_metric"] < 1
    assert summary["compute_overrun_fraction"] == 0
    assert (tmp_path / "network_trace.csv").read_text().startswith("time_s,host,factor\n")
    trace = pd.read_parquet(tmp_path / "trace.parquet")
    whole = trace[trace["complete"] & (trace["kind"] != "share")]
    servers = summary["servers"]  # sixteen numbers stand in for 102 MB
    assert (whole["bytes"] >= 102_000_000 / servers).all()
    assert set(whole["shard"]) <= set(range(servers))
    computations = pd.read_parquet(tmp_path / "computations.parquet")
    assert (computations["real_s"] == 0).all()
    run = MlflowClient(store).get_run(summary["mlflow_run_id"])
    assert run.info.status == "FINISHED"


def test_the_same_settings_leave_the_same_bytes(store: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        assert execute(settings(store), tmp_path / name).status == "finished"
    for table in TABLES:
        first, second = (tmp_path / name / f"{table}.parquet" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_training_for_real_leaves_the_same_bytes_in_any_process(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "build_workload", build_workload)
    asked = ["workload=resnet_digits", "policy=mlfabric_a", "engine.max_seconds=12"]
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        assert execute(settings(store, *asked), tmp_path / name).status == "finished"
    line = [*overrides(store, *asked), f"hydra.run.dir={tmp_path / 'fresh'}"]
    subprocess.run(
        [sys.executable, "-m", "experiments.run", *line], cwd=ROOT, capture_output=True, check=True
    )
    assert summary_of(tmp_path / "first")["updates_applied"] > 10
    for table in TABLES:
        first, *others = (tmp_path / name / f"{table}.parquet" for name in RUNS)
        assert all(other.read_bytes() == first.read_bytes() for other in others), table


def test_a_reached_target_ends_the_run(store: str, tmp_path: Path) -> None:
    asked = ["engine.stop_at_target=true", "workload.targets.paper=0.5", "engine.max_seconds=500"]
    outcome = execute(settings(store, *asked), tmp_path)
    assert outcome.status == "finished", outcome
    summary = summary_of(tmp_path)
    assert summary["time_to_target_s"] <= summary["elapsed_s"] < 60
    metrics = pd.read_parquet(tmp_path / "metrics.parquet")
    assert (metrics["loss"][:-2] > 0.5).all()
    assert metrics["loss"].iloc[-1] <= 0.5


def test_a_run_ends_after_so_many_updates(store: str, tmp_path: Path) -> None:
    asked = ["engine.max_updates=9", "engine.max_seconds=500", "policy.aggregation=none"]
    assert execute(settings(store, *asked), tmp_path).status == "finished"
    assert 9 <= summary_of(tmp_path)["updates_applied"] <= 12


def test_what_only_times_trains_and_scores_nothing(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("prepare", "initial_model", "trainer", "evaluator"):
        monkeypatch.delattr(Descent, name)
    outcome = execute(settings(store, "workload.timing_only=true"), tmp_path)
    assert outcome.status == "finished", outcome
    assert outcome.line.endswith("nothing trained")
    summary = summary_of(tmp_path)
    assert summary["updates_applied"] > 4
    assert (summary["final_metric"], summary["metric_name"]) == (None, "loss")
    assert pd.read_parquet(tmp_path / "metrics.parquet").empty


def test_an_interrupted_run_is_recorded_as_killed(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(self: Descent, model: Vector) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Descent, "evaluate", evaluate)
    assert execute(settings(store), tmp_path).status == "interrupted"
    summary = summary_of(tmp_path)
    assert (summary["status"], summary["reason"]) == ("failed", "interrupted")
    assert MlflowClient(store).get_run(summary["mlflow_run_id"]).info.status == "KILLED"


def test_a_fault_fails_the_run_with_its_traceback(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("boom")

    monkeypatch.setattr(execute_virtual, "run", broken)
    outcome = execute(settings(store), tmp_path)
    assert (outcome.status, outcome.line) == ("failed", "ValueError: boom")
    assert "Traceback" in outcome.details
