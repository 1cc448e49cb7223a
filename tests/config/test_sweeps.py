"""Sweeps through the real command line, their runs on the virtual clock, several at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from experiments.paths import ROOT

QUICK = ["engine=virtual", "cluster=paper", "workload=resnet_digits", "engine.max_seconds=4"]
TIMED = [*QUICK[:3], "workload.timing_only=true", "engine.max_seconds=1e6"]


def command(folder: Path, *overrides: str) -> list[str]:
    store = f"tracking.uri=sqlite:///{folder}/mlflow.db"
    place = f"hydra.sweep.dir={folder}/sweep"
    return [sys.executable, "-m", "experiments.run", "-m", store, place, *overrides]


def sweep(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *overrides), cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def corpus(folder: Path, lines: int) -> str:
    """A bag of words of 300 documents with two words each, if 600 lines follow the header."""
    folder.mkdir()
    (folder / "vocab.made.txt").write_text("".join(f"word{n}\n" for n in range(40)))
    counts = [f"{1 + n // 2} {1 + (7 * n) % 40} 3\n" for n in range(lines)]
    (folder / "docword.made.txt").write_text("300\n40\n600\n" + "".join(counts))
    return str(folder)


def recorded(folder: Path) -> tuple[list[Run], Run | None]:
    """The runs of the store, and their parent."""
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("mlfabric")
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id])
    runs = [run for run in found if run.data.tags["kind"] == "run"]
    parents = [run for run in found if run.data.tags["kind"] == "comparison"]
    assert len(parents) <= 1
    return runs, parents[0] if parents else None


@pytest.mark.timeout(400)
def test_a_failing_run_is_named_and_the_others_are_finished_and_compared(tmp_path: Path) -> None:
    folders = [corpus(tmp_path / "good", 600), corpus(tmp_path / "short", 599)]
    done = sweep(
        tmp_path,
        *["engine=virtual", "cluster=paper", "workload=plda_nytimes", "engine.max_seconds=1"],
        "policy=ring_allreduce,mlfabric_a",
        "seed=range(0,3)",
        f"workload.data_dir={','.join(folders)}",
    )
    assert done.returncode == 1, done.stderr
    assert "6 of 12 runs finished" in done.stderr
    failed = [line for line in done.stderr.splitlines() if "599 lines" in line or "/short/" in line]
    assert any("seed=2" in line and "/short" in line for line in failed), done.stderr
    runs, parent = recorded(tmp_path)
    assert sorted(run.info.status for run in runs) == ["FAILED"] * 6 + ["FINISHED"] * 6
    assert parent is not None
    assert {run.data.tags["compared_by"] for run in runs} == {parent.info.run_id}
    ratios = json.loads((tmp_path / "sweep" / "comparison.json").read_text())["ratios"]
    (rate,) = (one for one in ratios if one["measure"] == "updates_per_s")
    assert (rate["variant"], rate["baseline"], rate["n"]) == ("mlfabric_a", "ring_allreduce", 3)
    logged = parent.data.metrics["throughput/over ring_allreduce/mlfabric_a"]
    assert logged == pytest.approx(rate["median"])
    assert (tmp_path / "sweep" / "convergence.png").read_bytes().startswith(b"\x89PNG")


def test_a_sweep_may_end_at_its_first_failure(tmp_path: Path) -> None:
    done = sweep(
        tmp_path,
        *["engine=virtual", "cluster=paper", "workload=plda_nytimes", "engine.max_seconds=1"],
        f"workload.data_dir={corpus(tmp_path / 'short', 599)}",
        *["seed=range(0,8)", "sweep.stop_at_failure=true"],
        "hydra/launcher=basic",
    )
    assert done.returncode == 1
    assert "0 of 8 runs finished, 7 not started" in done.stderr


def test_a_bad_setting_of_the_sweep_is_refused_in_one_line(tmp_path: Path) -> None:
    done = sweep(tmp_path, *QUICK, "seed=0,1", "sweep.stop_at_failure=maybe")
    assert done.returncode == 2
    assert done.stderr == "sweep.stop_at_failure=maybe: must be true or false\n"


@pytest.mark.parametrize("target", ["group", "launcher"])
def test_an_interrupted_sweep_leaves_nothing_running(tmp_path: Path, target: str) -> None:
    """By the terminal, which signals every process, or by a signal to the launcher alone."""
    child = subprocess.Popen(
        command(tmp_path, *TIMED, "policy=async_ps", "seed=range(0,6)"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    wait_until(lambda: len(list((tmp_path / "sweep").glob("*/network_trace.csv"))) >= 2)
    time.sleep(1.0)
    if target == "group":
        os.killpg(child.pid, signal.SIGINT)
    else:
        child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "interrupted; nothing is left running" in said
    wait_until(lambda: subprocess.run(["pgrep", "-g", str(child.pid)]).returncode != 0)
    runs, _ = recorded(tmp_path)
    assert {run.info.status for run in runs} == {"KILLED"}


def wait_until(holds, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
