"""One run from its settings to its run.json and its record in MLflow."""

from __future__ import annotations

import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from analysis.names import flat_params
from experiments.build import build_workload
from experiments.collect import Records, write_tables
from experiments.environment import describe_environment
from experiments.errors import RunFailed
from experiments.files import write_json
from experiments.interrupts import held_back
from experiments.mpi_library import library
from experiments.naming import run_name
from experiments.outcome import Outcome, Status, outcome_of, result_line
from experiments.progress import Progress
from experiments.resuming import taken
from experiments.run_folder import SUMMARY, Part, RunFolder
from experiments.schema import RunConfig, to_plain
from experiments.sections import MpiEngineConfig
from experiments.summary import Metric, Summary, finished, unfinished
from mlfabric.checkpoints import Checkpoints
from mlfabric.errors import CheckpointDamaged, MlfabricError, SettingError
from workloads.base import Workload, WorkloadError

if TYPE_CHECKING:
    from experiments.tracking import Recorder


class Engine(Protocol):
    """How the records of a run come about."""

    def __init__(
        self, config: RunConfig, folder: RunFolder, workload: Workload, progress: Progress
    ) -> None: ...

    def carry_out(self) -> tuple[Records, Summary]:
        """Records of the ended run, and what else its run.json tells; raises what ends it early."""


def execute(config: RunConfig, run_dir: Path, progress: Progress | None = None) -> Outcome:
    """Carry out one run in its own folder, an absolute path. Whatever happens, it is recorded.

    With `resume=auto` one that has ended there before is not carried out again.
    How far it is is shown on stderr, or as `progress` does.
    """
    try:
        with taken(config, run_dir) as folder:
            if folder is None:
                ended = outcome_of(run_dir)
                return replace(ended, line=f"ended before: {ended.line}")
            return _Run(config, folder, progress or Progress()).execute()
    except RunFailed as error:
        return Outcome("failed", str(error), run_dir)


class _Run:
    """What is known of a run while it is carried out."""

    def __init__(self, config: RunConfig, folder: RunFolder, progress: Progress) -> None:
        self._config = config
        self._folder = folder
        self._run_dir = folder.path
        self._summary_path = folder.path / SUMMARY
        self._recorder: Recorder | None = None
        self._scores = pd.DataFrame()
        self._distances = pd.DataFrame()
        self._progress = progress
        self._workload = build_workload(config.workload, config.seed)

    def execute(self) -> Outcome:
        try:
            self._open_record()
            summary = self._carried_out()
        except KeyboardInterrupt:
            return self._end("interrupted", self._unfinished("interrupted"))
        except (RunFailed, MlfabricError, WorkloadError, OSError) as error:
            return self._fail(str(error))
        except MemoryError as error:
            return self._fail(f"memory ran out: {error}")
        except Exception as error:
            return self._fail(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        return self._end(summary["status"], summary)

    def _open_record(self) -> None:
        """The MLflow run and what the run depends on, before anything else can fail."""
        timed = self._config.workload.timing_only
        data = "none: timing only" if timed else self._workload.data
        environment = {**describe_environment(_mpi_version(self._config)), "data": data}
        write_json(environment, self._run_dir / "environment.json")
        settings = to_plain(self._config)
        tags = {
            "fingerprint": self._folder.mark,
            "run_dir": str(self._run_dir),
            "data": environment["data"],
            "git_dirty": str(environment["git"]["dirty"]),
            "mlflow.source.git.commit": str(environment["git"]["revision"]),
        }
        if self._config.tracking.uri is not None:
            self._open_mlflow_run(tags, settings)
        if self._recorder is not None:
            self._folder.run_id = self._recorder.run_id
        self._folder.write()
        self._say_where_it_goes_on()

    def _open_mlflow_run(self, tags: dict[str, str], settings: dict[str, Any]) -> None:
        from experiments.tracking import Recorder  # MLflow, only where it is used
        from experiments.tracking_views import leading_params

        name = run_name(self._config)
        params = leading_params(self._config) | flat_params(settings)
        tags |= {f"part_{n}": _told(part) for n, part in enumerate(self._folder.parts, start=1)}
        before = self._folder.run_id
        self._recorder = Recorder(self._config.tracking, name, tags, params, before)

    def _say_where_it_goes_on(self) -> None:
        checkpoint, number = self._folder.checkpoint, len(self._folder.parts)
        if checkpoint is not None:
            print(
                f"part {number}, from {checkpoint.elapsed_s:.1f} s of the run's clock", flush=True
            )

    def _carried_out(self) -> Summary:
        workload = self._workload
        engine = _engine(self._config)
        run = engine(self._config, self._folder, workload, self._progress)
        records, told = run.carry_out()
        write_tables(records, self._run_dir)
        self._scores, self._distances = records.metrics, records.distances
        run_id = self._recorder.run_id if self._recorder is not None else None
        metric = Metric(workload.metric_name, workload.metric_goal)
        return finished(self._config, run_id, metric, records) | told

    def _fail(self, text: str) -> Outcome:
        line, _, details = text.partition("\n")
        return self._end("failed", self._unfinished(line), details)

    def _unfinished(self, why: str) -> Summary:
        run_id = self._recorder.run_id if self._recorder else None
        return unfinished(self._config, run_id, why)

    def _end(self, status: Status, summary: Summary, details: str = "") -> Outcome:
        """Write down how the run ended, undisturbed by signals; a result not recorded is none."""
        self._progress.close()
        self._folder.part["ended"] = summary["reason"] or status
        summary |= {"parts": self._folder.parts}
        line = summary["reason"] or result_line(summary)
        if status == "interrupted" and self._config.resume == "auto":
            line = self._where_to_go_on()
        with held_back():
            try:
                self._record(status, summary)
                self._folder.recorded(status)
            except (RunFailed, OSError) as error:
                status = "failed"
                line = f"{line}; not recorded: {str(error).splitlines()[0]}"
                with suppress(OSError):
                    write_json({**summary, "status": status, "reason": line}, self._summary_path)
        return Outcome(status, line, self._run_dir, details)

    def _where_to_go_on(self) -> str:
        try:
            saved = Checkpoints(self._run_dir).latest()
        except CheckpointDamaged as error:
            return str(error)
        if saved is None:
            return "no checkpoint was made yet; the same command begins anew"
        return f"the same command goes on from {saved.elapsed_s:.1f} s of the run's clock"

    def _record(self, status: Status, summary: Summary) -> None:
        """In run.json and in MLflow; the one does not depend on the other."""
        ended = {"finished": "FINISHED", "interrupted": "KILLED"}.get(status, "FAILED")
        try:
            write_json(summary, self._summary_path)
        except OSError:
            ended = "FAILED"
            raise
        finally:
            self._record_in_mlflow(ended, summary)

    def _record_in_mlflow(self, ended: str, summary: Summary) -> None:
        if self._recorder is None:
            return
        self._recorder.log_results(summary)
        self._recorder.log_scores(self._scores)
        self._recorder.log_distances(self._distances)
        tags = {"status": summary["status"], "reason": summary["reason"] or ""}
        self._recorder.finish(ended, tags, self._run_dir)


def _told(part: Part) -> str:
    """A part of the run, as its MLflow run has it."""
    ended = f", {part['ended']}" if part["ended"] else ""
    return f"from {part['from_s']:.1f} s, {part['began']}{ended}"


def _mpi_version(config: RunConfig) -> str | None:
    """Of the MPI that ranks run on; None where there are none, or it cannot be had."""
    if not isinstance(config.engine, MpiEngineConfig):
        return None
    try:
        return library(config.engine.mpi).version()
    except SettingError:  # told when ranks are to be started
        return None


def _engine(config: RunConfig) -> type[Engine]:
    """Imported here: neither engine needs what the other does."""
    if config.virtual:
        from experiments.execute_virtual import VirtualRun

        return VirtualRun
    from experiments.execute_mpi import MpiRun

    return MpiRun
