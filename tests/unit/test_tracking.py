"""MLflow holds each run once, whole, whatever else writes to the store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from analysis.names import flat_params
from experiments.errors import RunFailed
from experiments.paths import ROOT
from experiments.schema import TrackingConfig
from experiments.tracking import VALUE_LIMIT, Recorder, create_store, patiently

SUMMARY: dict[str, Any] = {
    "status": "finished",
    "seed": 3,
    "elapsed_s": 4.0,
    "time_to_target_s": None,
    "updates_applied": 12,
    "final_metric": 0.25,
    "delay": {"mean": 1.5, "bound": None},
}


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> TrackingConfig:
    folder = tmp_path_factory.mktemp("store")
    return TrackingConfig(f"sqlite:///{folder / 'deep' / 'mlflow.db'}", "tests")


def test_a_store_whose_creation_was_interrupted_is_made_afresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appears with all its tables or not at all, and what a kill leaves does no harm."""

    def interrupted(*paths: object) -> None:
        raise KeyboardInterrupt

    tracking = TrackingConfig(f"sqlite:///{tmp_path / 'mlflow.db'}", "tests")
    with monkeypatch.context() as patched:
        patched.setattr("experiments.tracking.os.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            create_store(tracking)
    assert not (tmp_path / "mlflow.db").exists()
    assert create_store(tracking) == create_store(tracking)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow.db", "mlflow.db.lock"]


def test_settings_become_flat_parameters() -> None:
    settings = {"seed": 0, "cluster": {"workers": 8, "hostfile": None}, "policy": {"name": "a"}}
    assert flat_params(settings) == {
        "seed": "0",
        "cluster.workers": "8",
        "cluster.hostfile": "null",
        "policy.name": "a",
    }


def test_a_run_is_recorded_once_with_everything(tracking: TrackingConfig, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "trace.parquet").write_bytes(b"PAR1")
    params = {f"key.{i}": str(i) for i in range(150)} | {"long": "x" * (VALUE_LIMIT + 1)}
    recorder = Recorder(tracking, "name", {"fingerprint": "f00d"}, params)
    recorder.log_scores(
        pd.DataFrame({"version": [0, 7], "elapsed_s": [0.0, 2.5], "loss": [float("nan"), 0.25]})
    )
    recorder.log_results(SUMMARY)
    recorder.finish("FINISHED", {"status": "finished"}, tmp_path)

    client = MlflowClient(tracking.uri)
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_id, run.info.status) == (recorder.run_id, "FINISHED")
    assert len(run.data.params) == 151
    assert len(run.data.params["long"]) == VALUE_LIMIT
    assert run.data.tags["fingerprint"] == "f00d"
    history = client.get_metric_history(recorder.run_id, "loss")
    assert [(m.step, m.timestamp - run.info.start_time) for m in history] == [(0, 0), (7, 2500)]
    assert history[1].value == 0.25
    assert run.data.metrics["delay_mean"] == 1.5
    assert run.data.metrics["updates_applied"] == 12
    assert {"time_to_target_s", "seed", "delay_bound"}.isdisjoint(run.data.metrics)
    stored = {artifact.path for artifact in client.list_artifacts(recorder.run_id)}
    assert stored == {"run.json", "trace.parquet"}
    assert Path(experiment.artifact_location) == Path(tracking.uri[10:]).with_name("artifacts")


def test_launches_at_once_create_one_store(tmp_path: Path) -> None:
    script = (
        "import sys; from experiments.schema import TrackingConfig;"
        "from experiments.tracking import Recorder;"
        "r = Recorder(TrackingConfig(sys.argv[1], 'e'), 'n', {}, {'a': '1'}); print(r.run_id)"
    )
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    launches = [
        subprocess.Popen(
            [sys.executable, "-c", script, uri],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    ended = [launch.communicate(timeout=120) for launch in launches]
    assert [launch.returncode for launch in launches] == [0, 0, 0], ended
    client = MlflowClient(uri)
    experiments = [found.name for found in client.search_experiments()]
    assert sorted(experiments) == ["Default", "e"]
    found = client.get_experiment_by_name("e")
    assert found is not None
    runs = client.search_runs([found.experiment_id])
    assert {run.info.run_id for run in runs} == {out.strip() for out, _ in ended}
    assert len(runs) == 3


def test_a_locked_store_is_tried_again_and_other_faults_are_not() -> None:
    calls: list[str] = []

    def locked_twice() -> str:
        calls.append("locked")
        if len(calls) < 3:
            raise MlflowException("(sqlite3.OperationalError) database is locked")
        return "done"

    def broken() -> None:
        calls.append("broken")
        raise MlflowException("no such table")

    assert patiently(locked_twice) == "done"
    assert len(calls) == 3
    with pytest.raises(MlflowException, match="no such table"):
        patiently(broken)
    assert calls.count("broken") == 1

    def locked_for_ever() -> None:
        raise MlflowException("database is locked")

    with pytest.raises(MlflowException, match="locked"):
        patiently(locked_for_ever, patience_s=0.1)


def test_a_store_out_of_reach_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    uri = f"sqlite:///{tmp_path / 'file' / 'mlflow.db'}"
    with pytest.raises(RunFailed, match=r"^tracking\.uri=sqlite:///.*") as failed:
        create_store(TrackingConfig(uri, "e"))
    assert "\n" not in str(failed.value)
