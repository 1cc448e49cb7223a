"""One run from its settings to its run.json and its record in MLflow."""

from __future__ import annotations

import json
import time
import traceback
from contextlib import suppress
from pathlib import Path

from experiments.build import build_workload
from experiments.collect import metrics, read_records, write_tables
from experiments.environment import describe_environment
from experiments.errors import RunFailed
from experiments.evaluator import EvaluatorProcess
from experiments.files import write_json
from experiments.fingerprint import fingerprint
from experiments.interrupts import held_back
from experiments.launch import Launch
from experiments.outcome import Outcome, Status, result_line
from experiments.progress import Progress, read_progress, training_line
from experiments.schema import RunConfig, to_plain, write_config
from experiments.summary import Metric, Summary, finished, time_to_target_s, unfinished
from experiments.tail import Tail
from experiments.tracking import Recorder, flat_params
from mlfabric.emulation.spec import TOLERATED_MISS
from mlfabric.errors import MlfabricError
from workloads.base import Workload, WorkloadError

_POLL_S = 0.2
START_LIMIT_S = 300.0
END_LIMIT_S = 20.0


def execute(config: RunConfig, run_dir: Path) -> Outcome:
    """Carry out one run in its own folder, an absolute path. Whatever happens, it is recorded."""
    try:
        write_config(config, run_dir / "config.json")
    except FileExistsError:
        return Outcome("failed", f"{run_dir} already holds a run", run_dir)
    return _Run(config, run_dir).execute()


class _Run:
    """What is known of a run while it is carried out."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        self._config = config
        self._run_dir = run_dir
        self._summary_path = run_dir / "run.json"
        self._recorder: Recorder | None = None
        self._emulation: str | None = None
        self._progress = Progress()
        self._scores = Tail(run_dir / "metrics.jsonl")
        self._score = ""
        self._begun = False
        self._since_s = 0.0

    def execute(self) -> Outcome:
        try:
            self._open_record()
            launch = Launch(self._config, self._run_dir)
            self._emulation = launch.emulation
            launch.check()
            with EvaluatorProcess(self._run_dir) as evaluator:
                summary = self._train(launch, evaluator)
        except KeyboardInterrupt:
            return self._end("interrupted", self._unfinished("interrupted"))
        except (RunFailed, MlfabricError, WorkloadError, OSError) as error:
            return self._fail(str(error))
        except Exception as error:
            return self._fail(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        return self._end(summary["status"], summary)

    def _open_record(self) -> None:
        """The MLflow run and what the run depends on, before anything else can fail."""
        environment = describe_environment()
        write_json(environment, self._run_dir / "environment.json")
        settings = to_plain(self._config)
        tags = {
            "fingerprint": fingerprint(json.dumps(settings)),
            "run_dir": str(self._run_dir),
            "git_dirty": str(environment["git"]["dirty"]),
            "mlflow.source.git.commit": str(environment["git"]["revision"]),
        }
        name = run_name(self._config)
        self._recorder = Recorder(self._config.tracking, name, tags, flat_params(settings))

    def _train(self, launch: Launch, evaluator: EvaluatorProcess) -> Summary:
        workload = build_workload(self._config)
        self._progress.show("preparing the workload")
        while not (self._run_dir / "model0.npy").exists():
            if not evaluator.running():
                raise RunFailed("the evaluator ended before the workload was prepared")
            time.sleep(_POLL_S)
        try:
            launch.start()
            self._watch(launch, evaluator, workload)
        finally:
            launch.kill()
        evaluator.finish()
        self._await(evaluator, workload)
        return self._collected(workload) | {"worst_link_miss": self._link_miss(launch)}

    def _link_miss(self, launch: Launch) -> float | None:
        miss = launch.worst_link_miss()
        if miss is not None and miss > TOLERATED_MISS:
            self._progress.close()
            print(f"a shaped link misses its rate by {miss:.1%}; see calibration.json")
        return miss

    def _watch(self, launch: Launch, evaluator: EvaluatorProcess, workload: Workload) -> None:
        """Wait for the cluster to end; ask it to when the target is reached."""
        asked = False
        self._since_s = time.monotonic()
        while (status := launch.poll()) is None:
            evaluator.running()
            self._check_in_time()
            reached = self._read_scores(workload)
            if reached and self._config.engine.stop_at_target and not asked:
                launch.request_stop()
                asked = True
            progress = read_progress(self._run_dir)
            max_seconds = self._config.engine.max_seconds
            self._progress.show(training_line(progress, max_seconds, self._score))
            time.sleep(_POLL_S)
        if status != 0:
            raise RunFailed(f"{launch.failure()}\nlogs: {self._run_dir / 'console.log'}")

    def _check_in_time(self) -> None:
        """The ranks end themselves when nothing moves; this is for ranks that cannot."""
        engine = self._config.engine
        if not self._begun and (self._run_dir / "clock_start").exists():
            self._begun, self._since_s = True, time.monotonic()
        limit_s = START_LIMIT_S
        if self._begun:
            limit_s = engine.max_seconds + 2 * engine.watchdog_s + END_LIMIT_S
        if time.monotonic() - self._since_s > limit_s:
            what = "end" if self._begun else "begin"
            raise RunFailed(f"the ranks did not {what} within {limit_s:.0f} s")

    def _await(self, evaluator: EvaluatorProcess, workload: Workload) -> None:
        """Wait until every snapshot is evaluated."""
        while evaluator.running():
            self._read_scores(workload)
            self._progress.show(f"evaluating the last snapshots{self._score}")
            time.sleep(_POLL_S)

    def _read_scores(self, workload: Workload) -> bool:
        """Take in new scores; whether one of them is at or past the target."""
        rows = self._scores.rows()
        if rows:
            self._score = f" · {workload.metric_name} {rows[-1][workload.metric_name]:.4g}"
        metric = Metric(workload.metric_name, workload.metric_goal)
        return time_to_target_s(metrics(rows), metric, self._config.target) is not None

    def _collected(self, workload: Workload) -> Summary:
        assert self._recorder is not None
        assert self._emulation is not None
        records = read_records(self._run_dir)
        write_tables(records, self._run_dir)
        self._recorder.log_scores(records.metrics)
        metric = Metric(workload.metric_name, workload.metric_goal)
        return finished(self._config, self._emulation, self._recorder.run_id, metric, records)

    def _fail(self, text: str) -> Outcome:
        line, _, details = text.partition("\n")
        return self._end("failed", self._unfinished(line), details)

    def _unfinished(self, why: str) -> Summary:
        run_id = self._recorder.run_id if self._recorder else None
        return unfinished(self._config, self._emulation, run_id, why)

    def _end(self, status: Status, summary: Summary, details: str = "") -> Outcome:
        """Write down how the run ended, undisturbed by signals; a result not recorded is none."""
        self._progress.close()
        line = summary["reason"] or result_line(summary)
        with held_back():
            try:
                self._record(status, summary)
            except (RunFailed, OSError) as error:
                status = "failed"
                line = f"{line}; not recorded: {str(error).splitlines()[0]}"
                with suppress(OSError):
                    write_json({**summary, "status": status, "reason": line}, self._summary_path)
        return Outcome(status, line, self._run_dir, details)

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
        tags = {"status": summary["status"], "reason": summary["reason"] or ""}
        self._recorder.finish(ended, tags, self._run_dir)


def run_name(config: RunConfig) -> str:
    """What tells a run from others at a glance."""
    setting = f"{config.network.name}/{config.compute.name}"
    names = (config.workload.name, config.policy.name, config.cluster.name, setting)
    return f"{' '.join(names)} seed {config.seed}"
