"""Whole runs of real ranks that are killed or asked to end, and go on."""

from __future__ import annotations

import json
import signal
import time

import pandas as pd
import pytest
from mlflow import MlflowClient

from mlfabric.checkpoints import Checkpoints
from mlfabric.emulation.availability import unavailable
from tests.mpi.test_whole_runs import conserved, start  # noqa: F401

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"no namespaces: {unavailable()}")

LASTING = ("policy=mlfabric_a", "resume=auto", "engine.max_seconds=9")


def wait_for_checkpoint(run, after=0):
    deadline = time.monotonic() + 90
    while (found := Checkpoints(run.run_dir).latest()) is None or found.number <= after:
        assert run.process.poll() is None, run.log.read_text()
        assert time.monotonic() < deadline, run.log.read_text()
        time.sleep(0.05)
    return found.number


def parts_of(run):
    return json.loads((run.run_dir / "run.json").read_text())["parts"]


def test_a_run_that_is_killed_and_then_asked_to_end_goes_on_as_one(start):  # noqa: F811
    often = "engine.checkpoint_interval_s=1.5"
    run = start("run", *LASTING, often)
    number = wait_for_checkpoint(run)
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    run.nothing_left()
    run = start("run", *LASTING, often)
    number = wait_for_checkpoint(run, after=number)
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(timeout=60) == 130, run.log.read_text()
    run.nothing_left()
    found = Checkpoints(run.run_dir).latest()
    assert found.number > number, "it was not saved when it was asked to end"
    run = start("run", *LASTING, often)
    result = run.finished()
    first, second, third = parts_of(run)
    assert 0 == first["from_s"] < second["from_s"] < third["from_s"] == found.elapsed_s < 9
    assert [part["ended"] for part in parts_of(run)] == ["killed", "interrupted", "finished"]
    assert result["elapsed_s"] == pytest.approx(9, abs=1.5)
    conserved(run.run_dir)
    updates = pd.read_parquet(run.run_dir / "updates.parquet")
    assert not updates.duplicated(["worker", "iteration"]).any()
    scores = pd.read_parquet(run.run_dir / "metrics.parquet")
    assert scores["elapsed_s"].is_monotonic_increasing
    assert not (run.run_dir / "checkpoints").exists()
    store = MlflowClient(f"sqlite:///{run.run_dir.parent}/mlflow.db")
    (recorded,) = store.search_runs([e.experiment_id for e in store.search_experiments()])
    assert recorded.info.run_id == result["mlflow_run_id"]
    assert recorded.info.status == "FINISHED"
    assert {"part_1", "part_2", "part_3"} <= set(recorded.data.tags)


def test_the_loss_of_the_scheduler_leaves_a_checkpoint(start):  # noqa: F811
    fault = ("fault=scheduler_kill", "fault.at_s=4", "engine.checkpoint_interval_s=100")
    fault = (*fault, "replication=bounded")
    run = start("run", *LASTING, *fault)
    assert run.process.wait(timeout=120) == 1
    assert "scheduler was lost" in run.log.read_text()
    found = Checkpoints(run.run_dir).latest()
    assert found.elapsed_s == pytest.approx(4, abs=1)
    run = start("run", *LASTING, *fault)
    result = run.finished()
    assert [part["from_s"] for part in parts_of(run)] == [0, found.elapsed_s]
    assert result["fault_s"] == pytest.approx(4, abs=0.5)
    distances = pd.read_parquet(run.run_dir / "distances.parquet")
    assert (distances["elapsed_s"] > found.elapsed_s).any()
    assert result["divergence"]["exceeded"] == 0
    conserved(run.run_dir)
