"""Runs that are interrupted and go on: in their folder, from another, or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from experiments import execute as execution
from experiments import resuming
from experiments.errors import RunFailed
from experiments.execute import execute
from experiments.interrupts import held_back
from experiments.overrides import validate
from experiments.schema import RunConfig
from experiments.tracking import Recorder
from mlfabric.checkpoints import Checkpoints
from mlfabric.errors import SettingError
from tests.config.test_virtual_runs import TABLES, Descent, overrides, summary_of
from workloads.base import Update, Vector

Strike = Callable[[], None]


class Disturbed(Descent):
    """Something happens in a worker's eighth computation, once; steps are drawn: order matters."""

    strike: Strike | None = None

    def __init__(self) -> None:
        self._rng = np.random.default_rng(1)
        self._count = 0

    def trainer(self, worker: int, workers: int) -> Disturbed:
        return Disturbed()

    def compute(self, view: Vector) -> Update:
        self._count += 1
        if self._count == 8 and Disturbed.strike is not None:
            strike, Disturbed.strike = Disturbed.strike, None
            strike()
        return None, view * self._rng.normal(-0.1, 0.01, 16).astype(np.float32)

    def state(self) -> Any:
        return self._count, self._rng.bit_generator.state

    def restore(self, state: Any) -> None:
        self._count, self._rng.bit_generator.state = state


def terminated() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def failed() -> None:
    raise RuntimeError("out of luck")


@pytest.fixture(autouse=True)
def workload(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Disturbed.strike = None
    monkeypatch.setattr(execution, "build_workload", lambda settings, seed: Disturbed())
    monkeypatch.setattr(resuming, "RESULTS", tmp_path / "results")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def settings(store: str, *asked: str) -> RunConfig:
    often = "engine.checkpoint_interval_s=0.01"
    return validate(overrides(store, "policy=mlfabric_a", often, *asked), multirun=False)[0]


def folder(tmp_path: Path, name: str) -> Path:
    run_dir = tmp_path / "results" / "runs" / name
    run_dir.mkdir(parents=True, exist_ok=True)
    return run_dir


@pytest.mark.parametrize(("strike", "status"), [(terminated, "interrupted"), (failed, "failed")])
def test_it_ends_as_if_it_had_not_been_interrupted(
    store: str, tmp_path: Path, strike: Strike, status: str
) -> None:
    whole, parts = folder(tmp_path, "whole"), folder(tmp_path, "parts")
    assert execute(settings(store), whole).status == "finished"
    assert not (whole / "checkpoints").exists()
    Disturbed.strike = strike
    assert execute(settings(store, "resume=auto"), parts).status == status
    run_id = summary_of(parts)["mlflow_run_id"]
    assert Checkpoints(parts).latest() is not None
    assert execute(settings(store, "resume=auto"), parts).status == "finished"
    for table in TABLES:
        first, second = (path / f"{table}.parquet" for path in (whole, parts))
        pd.testing.assert_frame_equal(pd.read_parquet(first), pd.read_parquet(second))
    summary = summary_of(parts)
    assert summary["mlflow_run_id"] == run_id
    first, second = summary["parts"]
    assert first["from_s"] == 0 <= second["from_s"] < 12
    assert second["from_s"] > 0 or status == "failed"  # only the first checkpoint may be there
    assert (first["ended"] in (status, "RuntimeError: out of luck"), second["ended"]) == (
        True,
        "finished",
    )
    run = MlflowClient(store).get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["part_2"].startswith(f"from {second['from_s']:.1f} s")
    assert not (parts / "checkpoints").exists()


def test_any_number_of_times(store: str, tmp_path: Path) -> None:
    whole, parts = folder(tmp_path, "whole"), folder(tmp_path, "parts")
    assert execute(settings(store), whole).status == "finished"
    for _ in range(3):  # by another worker each time, but for the last
        Disturbed.strike = terminated
        outcome = execute(settings(store, "resume=auto"), parts)
        assert outcome.status == "interrupted"
        assert re.match(r"the same command goes on from \d+\.\d s of", outcome.line)
    Disturbed.strike = None
    assert execute(settings(store, "resume=auto"), parts).status == "finished"
    assert len(summary_of(parts)["parts"]) == 4
    for table in TABLES:
        first, second = (path / f"{table}.parquet" for path in (whole, parts))
        pd.testing.assert_frame_equal(pd.read_parquet(first), pd.read_parquet(second))


def test_another_folder_takes_the_run_over(store: str, tmp_path: Path) -> None:
    before, after = folder(tmp_path, "before"), folder(tmp_path, "after")
    other = folder(tmp_path, "other")
    for run_dir, seed in ((other, 1), (before, 0)):
        Disturbed.strike = terminated
        execute(settings(store, "resume=auto", f"seed={seed}"), run_dir)
    (after / ".hydra").mkdir()
    (after / ".hydra" / "overrides.yaml").write_text("- resume=auto\n")
    assert execute(settings(store, "resume=auto"), after).status == "finished"
    assert not before.exists()
    assert (after / ".hydra" / "overrides.yaml").exists()
    assert len(summary_of(after)["parts"]) == 2
    assert Checkpoints(other).latest() is not None
    tags = MlflowClient(store).get_run(summary_of(after)["mlflow_run_id"]).data.tags
    assert tags["run_dir"] == str(after)


def test_a_run_that_has_ended_is_left_alone(store: str, tmp_path: Path) -> None:
    run_dir = folder(tmp_path, "run")
    assert execute(settings(store, "resume=auto"), run_dir).status == "finished"
    written = (run_dir / "run.json").stat().st_mtime_ns
    outcome = execute(settings(store, "resume=auto"), run_dir)
    assert outcome.status == "finished"
    assert outcome.line.startswith("ended before: ")
    assert (run_dir / "run.json").stat().st_mtime_ns == written
    outcome = execute(settings(store, "resume=auto", "seed=5"), run_dir)
    assert outcome.status == "failed"
    assert outcome.line == f"seed=5: must be 0, as in the run in {run_dir}"


def test_what_cannot_go_on_is_refused_in_a_line(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = folder(tmp_path, "run")
    Disturbed.strike = terminated
    execute(settings(store, "resume=auto"), run_dir)
    kept = sorted(run_dir.rglob("*.pickle"))
    assert kept
    outcome = execute(settings(store), run_dir)
    assert outcome.line == f"{run_dir} already holds a run"
    outcome = execute(settings(store, "resume=auto", "network=ns2"), run_dir)
    assert outcome.line.startswith("network.")
    assert "as in the run in" in outcome.line
    with (run_dir / "running.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = execute(settings(store, "resume=auto"), run_dir)
        assert outcome.line == f"{run_dir}: another process carries out the run in it"
    with monkeypatch.context() as patch:
        patch.setattr("experiments.fingerprint.code_digest", lambda root: "other code")
        outcome = execute(settings(store, "resume=auto"), run_dir)
        assert "began with other code, packages or data" in outcome.line
    assert sorted(run_dir.rglob("*.pickle")) == kept
    assert execute(settings(store, "resume=auto"), run_dir).status == "finished"


DAMAGES = [
    ("*/*/complete.json", lambda data: b"", "complete.json: is damaged; without the folder"),
    ("*/*/complete.json", lambda data: b"{}", "complete.json: is damaged; without the folder"),
    ("*/*/world.pickle", lambda data: data[:1000], "world.pickle: has 1000 bytes; must have"),
    ("*/*/scores.pickle", None, "scores.pickle: is missing; without the folder"),
    ("*/*/world.pickle", lambda data: b"x" * len(data), ": cannot be read (UnpicklingError"),
    (
        "*/*/scores.pickle",
        lambda data: b"x" * len(data),
        "scores.pickle: cannot be read (",
    ),
    ("parts.json", lambda data: b"{}", "has no parts.json of a run that can go on"),
    ("parts.json", lambda data: b"[]", "has no parts.json of a run that can go on"),
    ("parts.json", lambda data: data.replace(b"began", b"x"), "has no parts.json of a run that"),
]


@pytest.mark.parametrize(("file", "damage", "told"), DAMAGES)
def test_what_is_damaged_is_named_in_a_line(
    store: str, tmp_path: Path, file: str, damage: Callable[[bytes], bytes] | None, told: str
) -> None:
    run_dir = folder(tmp_path, "run")
    Disturbed.strike = terminated
    execute(settings(store, "resume=auto"), run_dir)
    (path,) = run_dir.glob(file)
    whole = path.read_bytes()
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(whole))
    outcome = execute(settings(store, "resume=auto"), run_dir)
    assert (outcome.status, outcome.details) == ("failed", "")
    assert told in outcome.line
    path.write_bytes(whole)
    assert execute(settings(store, "resume=auto"), run_dir).status == "finished"


def test_a_run_whose_settings_are_gone_goes_on(store: str, tmp_path: Path) -> None:
    run_dir = folder(tmp_path, "run")
    Disturbed.strike = terminated
    execute(settings(store, "resume=auto"), run_dir)
    (run_dir / "config.json").unlink()
    assert execute(settings(store), run_dir).line == f"{run_dir} already holds a run"
    assert execute(settings(store, "resume=auto"), run_dir).status == "finished"
    assert len(summary_of(run_dir)["parts"]) == 2


@pytest.mark.parametrize("policy", ["mlfabric_a", "async_ps"])
def test_the_loss_of_the_scheduler_ends_a_part(store: str, tmp_path: Path, policy: str) -> None:
    run_dir = folder(tmp_path, "run")
    fault = (f"policy={policy}", "fault=scheduler_kill", "fault.at_s=5")
    outcome = execute(settings(store, "resume=auto", *fault), run_dir)
    lost = "scheduler was lost: nobody plans or keeps time"
    assert outcome.line == f"{lost}; resume=auto goes on from where it was"
    assert execute(settings(store, "resume=auto", *fault), run_dir).status == "finished"
    summary = summary_of(run_dir)
    assert [part["from_s"] for part in summary["parts"]] == [0, pytest.approx(5, abs=0.1)]
    assert (summary["fault_host"], summary["elapsed_s"]) == ("scheduler", pytest.approx(12, abs=1))
    outcome = execute(settings(store, *fault), folder(tmp_path, "never"))
    assert outcome.line == lost


def test_what_could_not_be_saved_is_not_promised(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoints, "complete", full)
    asked = settings(store, "resume=auto", "fault=scheduler_kill", "fault.at_s=5")
    outcome = execute(asked, folder(tmp_path, "run"))
    assert outcome.line == "scheduler was lost: nobody plans or keeps time"


def test_the_interval_may_be_another_one(store: str, tmp_path: Path) -> None:
    run_dir = folder(tmp_path, "run")
    Disturbed.strike = terminated
    execute(settings(store, "resume=auto"), run_dir)
    often = "engine.checkpoint_interval_s=7"
    assert execute(settings(store, "resume=auto", often), run_dir).status == "finished"
    assert len(summary_of(run_dir)["parts"]) == 2


def test_a_result_that_is_not_recorded_keeps_its_checkpoints(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = folder(tmp_path, "run")
    with monkeypatch.context() as patch:

        def unreachable(*arguments: object) -> None:
            raise RunFailed("the store is gone")

        patch.setattr(Recorder, "finish", unreachable)
        outcome = execute(settings(store, "resume=auto"), run_dir)
        assert "not recorded: the store is gone" in outcome.line
    assert Checkpoints(run_dir).latest() is not None
    assert execute(settings(store, "resume=auto"), run_dir).status == "finished"


def test_what_a_killed_run_did_not_write_stays(store: str, tmp_path: Path) -> None:
    run_dir = folder(tmp_path, "run")
    (run_dir / "notes").mkdir()
    (run_dir / "notes" / "thesis.txt").write_text("years of work")
    Disturbed.strike = failed
    never = "engine.checkpoint_interval_s=1000"
    execute(settings(store, "resume=auto", never), run_dir)
    assert execute(settings(store, "resume=auto", never), run_dir).status == "finished"
    assert (run_dir / "notes" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("key", "file"), [("hydra.run.dir", "multirun.yaml"), ("hydra.sweep.dir", "config.json")]
)
def test_a_run_does_not_go_on_in_the_folder_of_a_sweep_nor_the_reverse(
    store: str, tmp_path: Path, key: str, file: str
) -> None:
    (tmp_path / file).touch()
    multirun = key == "hydra.sweep.dir"
    with pytest.raises(SettingError, match=f"{key}=.*: must be a folder without a run in it"):
        validate(overrides(store, "resume=auto", f"{key}={tmp_path}"), multirun=multirun)


def test_signals_that_were_ignored_stay_so_and_others_are_not_lost() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held_back() as asked_to_end:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not asked_to_end()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_folder_with_something_else_in_it_stays_as_it_is(store: str, tmp_path: Path) -> None:
    run_dir = folder(tmp_path, "mine")
    (run_dir / "config.json").write_text('{"mine": 1}')
    (run_dir / "thesis.txt").write_text("years of work")
    outcome = execute(settings(store, "resume=auto"), run_dir)
    assert "has no parts.json of a run that can go on" in outcome.line
    assert (run_dir / "thesis.txt").read_text() == "years of work"
    assert json.loads((run_dir / "config.json").read_text()) == {"mine": 1}


def test_one_that_was_killed_before_its_first_checkpoint_begins_anew(
    store: str, tmp_path: Path
) -> None:
    run_dir = folder(tmp_path, "run")
    Disturbed.strike = failed
    execute(settings(store, "resume=auto", "engine.checkpoint_interval_s=1000"), run_dir)
    assert Checkpoints(run_dir).latest() is None
    (run_dir / "failure-3.txt").touch()
    asked = settings(store, "resume=auto", "engine.checkpoint_interval_s=1000")
    assert execute(asked, run_dir).status == "finished"
    assert not (run_dir / "failure-3.txt").exists()
    assert [part["from_s"] for part in summary_of(run_dir)["parts"]] == [0, 0]


def test_too_little_room_is_told_before_training(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    outcome = execute(settings(store, "resume=auto"), folder(tmp_path, "run"))
    assert outcome.status == "failed"
    assert "GB are free; must be" in outcome.line
    assert "or resume=never" in outcome.line


def test_a_disk_that_is_full_damages_no_checkpoint(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    kept.write(1, "world", b"x" * 1000)
    kept.complete(1, 2.5)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            kept.write(2, "world", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    found = kept.latest()
    assert found is not None
    assert (found.number, found.elapsed_s, found.part("world")) == (1, 2.5, b"x" * 1000)
    assert not [*tmp_path.rglob("*.partial")]
    kept.write(2, "world", b"y")  # of which no other part comes
    found = kept.latest()
    assert found is not None
    assert found.number == 1
    kept.complete(2, 3.0)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["000000002"]


@pytest.mark.parametrize("asked", ["resume=perhaps", "engine.checkpoint_interval_s=0"])
def test_bad_settings_are_one_line(store: str, asked: str) -> None:
    with pytest.raises(SettingError, match=asked.partition("=")[0]) as refused:
        validate(overrides(store, asked), multirun=False)
    assert len(str(refused.value).splitlines()) == 1
