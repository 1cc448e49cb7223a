"""A run on real ranks: the cluster is started, watched and ended, snapshots evaluated beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from experiments.collect import SCORES_FILE, Records, metrics, read_records
from experiments.environment import memory_bytes
from experiments.errors import RecordsError, RunFailed
from experiments.evaluator import EvaluatorProcess
from experiments.files import alone
from experiments.interrupts import held_back
from experiments.launch import Launch
from experiments.part_files import go_back_to, salvage
from experiments.paths import RESULTS
from experiments.progress import Progress, read_progress, training_line
from experiments.run_folder import GOES_ON, RunFolder, require_room
from experiments.schema import RunConfig
from experiments.sections import MpiEngineConfig
from experiments.summary import Metric, Summary, time_to_target_s
from experiments.tail import Tail
from mlfabric.checkpoints import REQUEST
from mlfabric.emulation.spec import TOLERATED_MISS
from mlfabric.errors import CheckpointDamaged
from workloads.base import Workload

_POLL_S = 0.2
START_LIMIT_S = 300.0
END_LIMIT_S = 20.0
CHECKPOINT_LIMIT_S = 25.0
"""A run that is to end early waits so long for its checkpoint: Slurm grants 30 seconds [ours]."""


class MpiRun:
    """What is known of a run while its ranks are at work."""

    def __init__(
        self, config: RunConfig, folder: RunFolder, workload: Workload, progress: Progress
    ) -> None:
        assert isinstance(config.engine, MpiEngineConfig)
        self._config = config
        self._engine = config.engine
        self._folder = folder
        self._run_dir = run_dir = folder.path
        self._metric = Metric(workload.metric_name, workload.metric_goal)
        self._progress = progress
        self._scores = Tail(run_dir / SCORES_FILE)
        self._score = ""
        self._begun = False
        self._since_s = 0.0

    def carry_out(self) -> tuple[Records, Summary]:
        """Records of the ended run, and what else is to be told; raises what ends it early."""
        launch = Launch(self._config, self._run_dir)
        launch.check()
        if self._folder.checkpoint is not None:
            part = len(self._folder.parts)
            go_back_to(self._folder.checkpoint, self._config.hosts, self._run_dir, part)
        with self._turn():
            self._carry_out(launch)
        told = {"worst_link_miss": self._link_miss(launch), "emulation": launch.emulation}
        return read_records(self._run_dir, whole=not self._config.fault_tolerant), told

    def _turn(self) -> AbstractContextManager[None]:
        """Ranks of this machine would disturb each other's timing; those of others do not."""
        if self._config.cluster.elsewhere:
            return nullcontext()
        waits = "waiting for another run's ranks on this machine to end"
        return alone(RESULTS / "cluster.lock", waits)

    def _carry_out(self, launch: Launch) -> None:
        if launch.emulation == "userspace":
            print(f"links are shaped in user space{launch.why and ': '}{launch.why}")
        with EvaluatorProcess(self._run_dir) as evaluator:
            self._train(launch, evaluator)

    def _train(self, launch: Launch, evaluator: EvaluatorProcess) -> None:
        while not (self._run_dir / "model0.npy").exists():
            told = evaluator.told()
            self._progress.show(f"preparing the workload{told and ': '}{told}")
            if not evaluator.running():
                raise RunFailed("the evaluator ended before the workload was prepared")
            time.sleep(_POLL_S)
        model_bytes = np.load(self._run_dir / "model0.npy", mmap_mode="r").nbytes
        try:
            require_room(self._run_dir, self._config, model_bytes)
            _require_memory(self._config, model_bytes)
        except RunFailed:
            (self._run_dir / "model0.npy").unlink()
            raise
        try:
            with self._asked_to_end() as asked_to_end:
                launch.start()
                self._watch(launch, evaluator, asked_to_end)
        finally:
            launch.kill()
        evaluator.finish()
        self._await(evaluator)

    def _link_miss(self, launch: Launch) -> float | None:
        miss = launch.worst_link_miss()
        if miss is not None and miss > TOLERATED_MISS:
            self._progress.close()
            print(f"a shaped link misses its rate by {miss:.1%}; see calibration.json")
        return miss

    def _asked_to_end(self) -> AbstractContextManager[Callable[[], bool]]:
        """What tells of a signal, where that is to wait for a checkpoint."""
        return held_back() if self._config.resume == "auto" else nullcontext(lambda: False)

    def _save_and_leave(self, launch: Launch) -> None:
        """One more checkpoint, if there is something to save and it is made in time."""
        asked = self._run_dir / REQUEST
        if self._begun:
            asked.touch()
        deadline = time.monotonic() + CHECKPOINT_LIMIT_S
        while asked.exists() and launch.poll() is None and time.monotonic() < deadline:
            self._progress.show("asked to end: making a checkpoint")
            time.sleep(_POLL_S)
        raise KeyboardInterrupt

    def _watch(
        self, launch: Launch, evaluator: EvaluatorProcess, asked_to_end: Callable[[], bool]
    ) -> None:
        """Wait for the cluster to end; ask it to when the target is reached."""
        asked = False
        self._since_s = time.monotonic()
        while (status := launch.poll()) is None:
            evaluator.running()
            self._check_in_time()
            if asked_to_end():
                self._save_and_leave(launch)
            reached = self._read_scores()
            if reached and self._engine.stop_at_target and not asked:
                launch.request_stop()
                asked = True
            progress = read_progress(self._run_dir)
            line = training_line(progress, self._engine.max_seconds, self._score)
            self._progress.show(line)
            time.sleep(_POLL_S)
        if status != 0:
            told = GOES_ON if self._salvaged() else ""
            what, *story = launch.failure().splitlines()
            lines = [f"{what}{told}", *story, f"logs: {self._run_dir / 'console.log'}"]
            raise RunFailed("\n".join(lines))

    def _salvaged(self) -> bool:
        """Whether ranks that lost their scheduler have left a checkpoint."""
        try:
            return salvage(self._config, self._run_dir, len(self._folder.parts))
        except (OSError, RecordsError, KeyError, CheckpointDamaged):
            return False

    def _check_in_time(self) -> None:
        """The ranks end themselves when nothing moves; this is for ranks that cannot."""
        if not self._begun and (self._run_dir / "clock_start").exists():
            self._begun, self._since_s = True, time.monotonic()
        limit_s = START_LIMIT_S
        if self._begun:
            limit_s = self._engine.max_seconds + 2 * self._engine.watchdog_s + END_LIMIT_S
        if time.monotonic() - self._since_s > limit_s:
            what = "end" if self._begun else "begin"
            raise RunFailed(f"the ranks did not {what} within {limit_s:.0f} s")

    def _await(self, evaluator: EvaluatorProcess) -> None:
        """Wait until every snapshot is evaluated."""
        while evaluator.running():
            self._read_scores()
            self._progress.show(f"evaluating the last snapshots{self._score}")
            time.sleep(_POLL_S)

    def _read_scores(self) -> bool:
        """Take in new scores; whether one of them is at or past the target."""
        rows = self._scores.rows()
        if rows:
            self._score = f" · {self._metric.name} {rows[-1][self._metric.name]:.4g}"
        return time_to_target_s(metrics(rows), self._metric, self._config.target) is not None


def _require_memory(config: RunConfig, model_bytes: int) -> None:
    """Raises RunFailed where this machine cannot hold the models of all that run on it.

    Each worker has one at least, all servers together one; the evaluator two snapshots and what
    it makes of them to score them.
    """
    if config.cluster.elsewhere:
        return
    models, there = config.cluster.workers + 4, memory_bytes()
    if models * model_bytes > there:
        raise RunFailed(
            f"{config.workload.name}: a model takes {model_bytes / 1e9:.3g} GB, and"
            f" cluster.workers={config.cluster.workers} need {models} of them at least; must fit"
            f" into the {there / 1e9:.3g} GB of memory of this machine"
        )
