"""A run on the virtual clock: trained, carried and scored in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.collect import Records, metrics, records_of
from experiments.errors import RunFailed
from experiments.interrupts import held_back
from experiments.model_report import write_report
from experiments.plan import rate_events
from experiments.progress import Progress, training_line
from experiments.run_folder import GOES_ON, RunFolder, require_room
from experiments.schema import RunConfig
from experiments.summary import Metric, Summary, reached
from experiments.virtual_plan import virtual_plan
from mlfabric.checkpoints import LEAST_SPACING, WAY_OUT, Checkpoints
from mlfabric.emulation.spec import RateEvent
from mlfabric.emulation.stragglers import write_trace
from mlfabric.engines.virtual import run
from mlfabric.errors import CheckpointDamaged, SchedulerLost
from workloads.base import Trainer, Workload

Rows = list[dict[str, Any]]
OnProgress = Callable[[float, Mapping[str, int]], None]

_WORLD, _SCORES = "world", "scores"
"""Parts of a checkpoint."""

_NO_MODEL: NDArray[Any] = np.empty(0, np.float32)


class VirtualRun:
    """What is known of a run while its clock jumps from event to event."""

    def __init__(
        self, config: RunConfig, folder: RunFolder, workload: Workload, progress: Progress
    ) -> None:
        self._config = config
        self._folder = folder
        self._run_dir = folder.path
        self._workload = workload
        self._metric = Metric(workload.metric_name, workload.metric_goal)
        self._progress = progress
        self._scores: list[dict[str, Any]] = []
        self._has_saved = False

    def carry_out(self) -> tuple[Records, Summary]:
        """Records of the ended run, and what else is to be told; raises what ends it early."""
        if self._folder.checkpoint is not None:
            self._scores = self._folder.checkpoint.part(_SCORES)
        try:
            rows = self._time() if self._config.workload.timing_only else self._train()
        except SchedulerLost as error:
            raise RunFailed(f"{error}{GOES_ON if self._has_saved else ''}") from None
        except CheckpointDamaged as error:
            checkpoint = self._folder.checkpoint
            assert checkpoint is not None
            raise RunFailed(f"{checkpoint.folder}: {error}; {WAY_OUT}") from error
        return records_of(rows, metrics(self._scores)), {"worst_link_miss": None}

    def _train(self) -> Rows:
        self._progress.show("preparing the workload")
        workload = self._workload
        workload.prepare()
        model = workload.initial_model()
        plan = virtual_plan(self._config, workload.conserved, model)
        evaluator = workload.evaluator()

        last = model

        def score(model: NDArray[Any], version: int, elapsed_s: float) -> bool:
            nonlocal last
            last = model
            scores = evaluator.evaluate(model)
            self._scores.append({"version": version, "elapsed_s": elapsed_s, **scores})
            return self._is_enough()

        count = self._config.cluster.workers
        self._write_trace(plan.rate_events)
        require_room(self._run_dir, self._config, model.nbytes)
        with self._saves() as saves:
            make = partial(workload.trainer, workers=count)
            rows = run(plan, model, make, score, self._show, saves)
        write_report(evaluator, last, self._run_dir)
        return rows

    def _time(self) -> Rows:
        self._write_trace(rate_events(self._config))
        with self._saves() as saves:
            return time_only(self._config, self._show, saves)

    @contextmanager
    def _saves(self) -> Iterator[_Saves | None]:
        """Checkpoints, where they are wanted; a signal to end then waits for one."""
        if self._config.resume == "never":
            yield None
            return
        with held_back() as asked_to_end:
            saves = _Saves(self._config, self._folder, self._scores, asked_to_end)
            try:
                yield saves
            finally:
                self._has_saved = saves.has_saved

    def _write_trace(self, events: Iterable[RateEvent]) -> None:
        write_trace(self._run_dir / "network_trace.csv", events)

    def _is_enough(self) -> bool:
        """Whether the last snapshot ends the run."""
        stops = self._config.engine.stop_at_target
        return stops and reached(self._scores[-1], self._metric, self._config.target)

    def _show(self, elapsed_s: float, counts: Mapping[str, int]) -> None:
        name = self._metric.name
        score = f" · {name} {self._scores[-1][name]:.4g}" if self._scores else ""
        told = {"elapsed_s": elapsed_s, **counts}
        self._progress.show(training_line(told, self._config.engine.max_seconds, score))


class _Saves:
    """Checkpoints at intervals, and a last one where the run is to end early; `has_saved`: whether
    the last one is there."""

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        scores: list[dict[str, Any]],
        asked_to_end: Callable[[], bool],
    ) -> None:
        self._interval_s = config.engine.checkpoint_interval_s
        self._checkpoints = Checkpoints(folder.path)
        self._scores = scores
        self._asked_to_end = asked_to_end
        self._due_s = time.monotonic()
        self._next_s = self._due_s + self._interval_s
        self.last = None if folder.checkpoint is None else folder.checkpoint.data(_WORLD)
        self.has_saved = False

    def due(self) -> bool:
        self._due_s = time.monotonic()
        return self._asked_to_end() or self._due_s >= self._next_s

    def save(self, data: bytes, elapsed_s: float) -> None:
        """Raises KeyboardInterrupt where the run is to end; without room the last one stays."""
        number = self._checkpoints.next_number()
        try:
            self._checkpoints.write_data(number, _WORLD, data)
            self._checkpoints.write(number, _SCORES, self._scores)
            self._checkpoints.complete(number, elapsed_s)
            self.has_saved = True
        except OSError as error:
            self.has_saved = False
            self._checkpoints.discard(number)
            print(f"no checkpoint at {elapsed_s:.1f} s: {error}", file=sys.stderr, flush=True)
        now = time.monotonic()
        self._next_s = now + max(self._interval_s, LEAST_SPACING * (now - self._due_s))
        if self._asked_to_end():
            raise KeyboardInterrupt


def time_only(
    config: RunConfig,
    show: OnProgress = lambda elapsed_s, counts: None,
    saves: _Saves | None = None,
) -> Rows:
    """Rows of a run of bytes and seconds alone: there is no data, and nothing to score."""
    plan = virtual_plan(config, conserved=False, model=None)
    return run(plan, _NO_MODEL, _no_trainer, lambda model, version, elapsed_s: False, show, saves)


def _no_trainer(worker: int) -> Trainer:
    raise AssertionError("nothing is trained where only time is kept")
