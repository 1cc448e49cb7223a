"""Runs that targets are read from: found again by what shapes them, and only by that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from experiments import fingerprint, study, targets
from experiments.errors import RunFailed
from experiments.files import alone
from experiments.paths import ROOT
from experiments.pool import Ended
from experiments.targets import SEEDS, Case

REAL = Case("plda_sotu", "laptop", ("workload=plda_sotu", "cluster=laptop"), 20.0)
VIRTUAL = Case(
    "resnet_digits",
    "paper",
    ("workload=resnet_digits", "cluster=paper", "engine=virtual"),
    10.0,
)


class Runs:
    """Carries nothing out: the last level of the n-th run is n."""

    def __init__(self) -> None:
        self.alone: list[list[str]] = []
        self.pooled: list[list[str]] = []

    def run(self, line: list[str]) -> int:
        self.alone.append(line)
        return self._end(line)

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def carry_out(self, jobs):
        for job, line in jobs:
            self.pooled.append(line)
            yield Ended(job, self._end(line), "done")

    def _end(self, line: list[str]) -> int:
        chosen = dict(override.split("=", 1) for override in line)
        folder = Path(chosen["hydra.run.dir"])
        folder.mkdir(parents=True)
        summary = {"status": "finished", "metric_name": "loss"}
        (folder / "run.json").write_text(json.dumps(summary))
        last = float(len(self.alone) + len(self.pooled))
        table = {"version": [0, 9], "elapsed_s": [0.0, 8.0], "loss": [99.0, last]}
        pd.DataFrame(table).to_parquet(folder / "metrics.parquet")
        return 0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    found = Runs()
    monkeypatch.setattr(study, "run", found.run)
    monkeypatch.setattr(study, "Pool", lambda: found)
    monkeypatch.setattr(targets, "RESULTS", tmp_path)
    return found


def test_real_ranks_run_alone_and_the_virtual_clock_many_at_a_time(runs: Runs) -> None:
    assert targets._levels(REAL) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert (len(runs.alone), len(runs.pooled)) == (len(SEEDS), 0)
    assert "engine.max_seconds=16.0" in runs.alone[0]
    assert targets._levels(VIRTUAL) == [6.0, 7.0, 8.0, 9.0, 10.0]
    assert (len(runs.alone), len(runs.pooled)) == (len(SEEDS), len(SEEDS))


@pytest.mark.parametrize("case", [REAL, VIRTUAL], ids=["mpi", "virtual"])
def test_a_run_is_used_again_under_the_same_settings_and_code_alone(
    runs: Runs, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = targets._levels(case)
    assert targets._levels(case) == first
    other = Case(case.workload, case.cluster, (*case.overrides, "cluster.workers=4"), 20.0)
    assert set(targets._levels(other)).isdisjoint(first)
    monkeypatch.setattr(fingerprint, "code_digest", lambda root: "other code")
    assert set(targets._levels(case)).isdisjoint(first)
    assert len(runs.alone) + len(runs.pooled) == 3 * len(SEEDS)


@pytest.mark.parametrize("case", [REAL, VIRTUAL], ids=["mpi", "virtual"])
@pytest.mark.parametrize("left", ["nothing", "a run under way"])
def test_what_an_interrupted_run_has_left_gives_way(
    runs: Runs, tmp_path: Path, case: Case, left: str
) -> None:
    first = targets._levels(case)
    for place in tmp_path.glob("*/*/run.json"):
        place.unlink()
        if left == "a run under way":
            place.write_text(json.dumps({"status": "running"}))
    assert targets._levels(case) == [value + len(SEEDS) for value in first]


def test_a_second_study_of_the_same_runs_waits_for_the_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    waiting = "from experiments.files import alone; import sys; from pathlib import Path\n"
    waiting += f"with alone(Path('{tmp_path}/lock'), 'waiting'): print('in', flush=True)"
    with alone(tmp_path / "lock", "never said"):
        second = subprocess.Popen([sys.executable, "-c", waiting], cwd=ROOT)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(3)
    assert second.wait(20) == 0
    assert capfd.readouterr().out == "waiting\nin\n"


def test_a_run_that_fails_ends_the_search(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "run", lambda line: 1)
    with pytest.raises(RunFailed, match="plda_sotu laptop 100: ended with status 1"):
        targets._levels(REAL)
    monkeypatch.setattr(targets, "_cases", lambda profile, figures: [REAL])
    assert targets.main(["--profile", "smoke", "--figures", "fig7"]) == 1
    assert "ended with status 1" in capsys.readouterr().err


def test_the_command_line_chooses_profile_and_figures(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert targets.main(["--profile", "laptop", "--figures", "table1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "resnet_digits paper: 3 of [1.0, 2.0, 3.0, 4.0, 5.0]"
    assert "engine.max_seconds=72.0" in runs.pooled[0]
