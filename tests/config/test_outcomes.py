"""However a run ends, run.json, MLflow and the outcome say so; the ranks are stand-ins here."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from mlflow import MlflowClient

from experiments import execute as execution
from experiments import execute_mpi, tracking
from experiments.errors import RunFailed
from experiments.evaluator import EvaluatorProcess
from experiments.execute import execute
from experiments.interrupts import held_back
from experiments.outcome import Outcome, sweep_summary
from experiments.overrides import validate
from experiments.schema import RunConfig
from mlfabric.errors import EmulationUnavailable
from workloads.base import WorkloadError

APPLIED = {
    "shard": 0,
    "row": "update",
    "id": "w1-0",
    "worker": 0,
    "iteration": 0,
    "version_pulled": 0,
    "version_applied": 0,
    "status": "applied",
    "delay": 0,
    "resolved_s": 1.0,
    "norm": 1.0,
    "push_bytes": 8,
}
COUNTS = {"version": 1, "applied": 1, "dropped": 0}
TOTALS = {"row": "totals", "shard": 0, "shards": 1, "elapsed_s": 2.0, **COUNTS}


class StubWorkload:
    data = "none: a stand-in"
    metric_name = "loss"
    metric_goal = "min"


class StubLaunch:
    """A cluster that ends at the `polls`-th look, with `status`, after the given rows."""

    rows: ClassVar[list[dict[str, Any]]] = [APPLIED, TOTALS]
    status = 0
    polls = 2
    emulation, why = "netns", ""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.looked = 0

    def check(self) -> None:
        pass

    def worst_link_miss(self) -> float:
        return 0.01

    def start(self) -> None:
        (self.run_dir / "records").mkdir()
        (self.run_dir / "killed").unlink(missing_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in self.rows)
        (self.run_dir / "records" / "rank-00.jsonl").write_text(lines)
        (self.run_dir / "console.log").touch()

    def poll(self) -> int | None:
        self.looked += 1
        return self.status if self.looked >= self.polls else None

    def request_stop(self) -> None:
        self.polls = 0

    def kill(self) -> None:
        (self.run_dir / "killed").touch()

    def failure(self) -> str:
        return "rank 3 (w2) raised ValueError: boom\nTraceback: boom"


class StubEvaluator:
    """Has prepared and evaluated everything at once."""

    def __init__(self, run_dir: Path) -> None:
        np.save(run_dir / "model0.npy", np.zeros(2, np.float32))
        rows = [{"version": 0, "elapsed_s": 0.0, "loss": 2.0}]
        rows += [{"version": 1, "elapsed_s": 1.0, "loss": 0.4}]
        (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def __enter__(self) -> StubEvaluator:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def running(self) -> bool:
        return False

    def finish(self) -> None:
        pass


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> type[StubLaunch]:
    class Fresh(StubLaunch):
        pass

    monkeypatch.setattr(execute_mpi, "Launch", Fresh)
    monkeypatch.setattr(execute_mpi, "EvaluatorProcess", StubEvaluator)
    monkeypatch.setattr(execution, "build_workload", lambda settings, seed: StubWorkload())
    return Fresh


def settings(store: str, *overrides: str) -> RunConfig:
    return validate([f"tracking.uri={store}", *overrides], multirun=False)[0]


def recorded(store: str, run_dir: Path) -> tuple[dict[str, Any], str]:
    """The content of run.json and the status of the one MLflow run of that folder."""
    summary = json.loads((run_dir / "run.json").read_text())
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("mlfabric")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], f"tags.run_dir = '{run_dir}'")
    assert run.info.run_id == summary["mlflow_run_id"]
    return summary, run.info.status


def test_a_valid_run_is_finished(store: str, stand_ins: type[StubLaunch], tmp_path: Path) -> None:
    outcome = execute(settings(store, "workload.targets.laptop=0.5"), tmp_path)
    assert outcome.status == "finished", outcome
    summary, status = recorded(store, tmp_path)
    assert (summary["status"], status) == ("finished", "FINISHED")
    assert (summary["time_to_target_s"], summary["emulation"]) == (1.0, "netns")
    assert (tmp_path / "trace.parquet").exists()
    assert json.loads((tmp_path / "environment.json").read_text())["packages"]["numpy"]
    assert summary["worst_link_miss"] == 0.01


def test_a_reached_target_ends_the_run(
    store: str, stand_ins: type[StubLaunch], tmp_path: Path
) -> None:
    stand_ins.polls = 10**6
    overrides = ["workload.targets.laptop=0.5", "engine.stop_at_target=true"]
    assert execute(settings(store, *overrides), tmp_path).status == "finished"


def test_a_raising_rank_fails_the_run_with_its_traceback(
    store: str, stand_ins: type[StubLaunch], tmp_path: Path
) -> None:
    stand_ins.status = 1
    outcome = execute(settings(store), tmp_path)
    assert (outcome.status, outcome.line) == ("failed", "rank 3 (w2) raised ValueError: boom")
    assert outcome.details.splitlines()[0] == "Traceback: boom"
    assert str(tmp_path / "console.log") in outcome.details
    summary, status = recorded(store, tmp_path)
    assert (summary["status"], summary["reason"], status) == ("failed", outcome.line, "FAILED")


def test_contradicting_records_make_the_run_invalid(
    store: str, stand_ins: type[StubLaunch], tmp_path: Path
) -> None:
    stand_ins.rows = [APPLIED, {**TOTALS, "applied": 2}]
    outcome = execute(settings(store), tmp_path)
    assert outcome.status == "invalid"
    summary, status = recorded(store, tmp_path)
    assert (summary["status"], status) == ("invalid", "FAILED")


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (EmulationUnavailable("namespaces are forbidden"), "namespaces are forbidden"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (WorkloadError("no data"), "no data"),
        (RunFailed("the evaluator ended"), "the evaluator ended"),
        (KeyError("oops"), "KeyError: 'oops'"),
    ],
)
def test_any_other_fault_fails_the_run_and_kills_the_cluster(
    store: str,
    stand_ins: type[StubLaunch],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
    line: str,
) -> None:
    def poll(self: StubLaunch) -> int | None:
        raise fault

    monkeypatch.setattr(stand_ins, "poll", poll)
    outcome = execute(settings(store), tmp_path)
    assert (outcome.status, outcome.line) == ("failed", line)
    assert ("Traceback" in outcome.details) == isinstance(fault, KeyError)
    assert (tmp_path / "killed").exists()
    summary, status = recorded(store, tmp_path)
    assert (summary["status"], summary["reason"], status) == ("failed", line, "FAILED")


def test_an_interrupted_run_is_recorded_as_killed(
    store: str, stand_ins: type[StubLaunch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poll(self: StubLaunch) -> int | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stand_ins, "poll", poll)
    assert execute(settings(store), tmp_path).status == "interrupted"
    assert (tmp_path / "killed").exists()
    summary, status = recorded(store, tmp_path)
    assert (summary["status"], summary["reason"], status) == ("failed", "interrupted", "KILLED")


def test_a_run_that_cannot_be_recorded_is_failed(
    store: str, stand_ins: type[StubLaunch], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(*_: object) -> None:
        raise RunFailed("the store is gone")

    monkeypatch.setattr(tracking.Recorder, "finish", finish)
    outcome = execute(settings(store), tmp_path)
    assert outcome.status == "failed"
    assert "not recorded: the store is gone" in outcome.line
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "failed"


def test_a_folder_with_a_run_is_left_as_it_is(
    store: str, stand_ins: type[StubLaunch], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    outcome = execute(settings(store), tmp_path)
    assert (outcome.status, outcome.line) == ("failed", f"{tmp_path} already holds a run")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def wait_for(evaluator: EvaluatorProcess) -> None:
    while evaluator.running():
        time.sleep(0.05)


def test_a_crashing_evaluator_is_noticed_with_its_last_words(tmp_path: Path) -> None:
    with EvaluatorProcess(tmp_path) as evaluator, pytest.raises(RunFailed) as failed:
        wait_for(evaluator)  # there is no config.json to find
    assert "the evaluator ended with status 1: FileNotFoundError" in str(failed.value)
    assert str(tmp_path / "evaluator.log") in str(failed.value)


def test_a_killed_evaluator_is_told_from_one_that_crashed(tmp_path: Path) -> None:
    with EvaluatorProcess(tmp_path) as evaluator:
        evaluator._process.kill()  # before it finds that there is no config.json
        with pytest.raises(RunFailed) as failed:
            wait_for(evaluator)
    assert str(failed.value) == "the evaluator was killed by SIGKILL, as where memory runs out"


def test_a_sweep_says_which_jobs_failed_and_why(tmp_path: Path) -> None:
    good, bad = Outcome("finished", "fine", tmp_path), Outcome("failed", "boom", tmp_path)
    text = sweep_summary([("seed=0", good), ("seed=1", bad), ("seed=2", bad)], planned=4)
    assert text.splitlines() == [
        "1 of 4 runs finished, 1 not started",
        f"  seed=1: failed: boom ({tmp_path})",
        f"  seed=2: failed: boom ({tmp_path})",
    ]


def test_a_signal_is_answered_after_what_must_not_be_disturbed() -> None:
    done = []
    # A shell starts background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def careful() -> None:
        with held_back():
            signal.raise_signal(signal.SIGINT)
            done.append("undisturbed")

    with pytest.raises(KeyboardInterrupt):
        careful()
    assert done == ["undisturbed"]


def test_only_the_first_signal_interrupts() -> None:
    script = (
        "import os, signal; from experiments.interrupts import interrupt_once; interrupt_once()\n"
        "try: os.kill(os.getpid(), signal.SIGTERM)\n"
        "except KeyboardInterrupt: os.kill(os.getpid(), signal.SIGINT); print('cleaned up')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "cleaned up\n", done.stderr
