"""A sweep: the runs of `-m`, by one of Hydra's launchers, told and recorded as one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import OmegaConf

from experiments.comparison import compare_sweep
from experiments.errors import RunFailed
from experiments.hydra_app import launch
from experiments.job import run_job
from experiments.mpiexec import ONE_THREAD
from experiments.outcome import outcomes_in, sweep_summary
from experiments.overrides import composed, fixed, launches
from experiments.pool import MOST_CHILDREN
from experiments.schema import RunConfig
from experiments.sweep_settings import SweepConfig, sweep_settings
from experiments.tracking import end_running

_LAUNCHER = "hydra/launcher="


def carry_out(arguments: list[str], overrides: Sequence[str], jobs: Sequence[RunConfig]) -> int:
    """Carry out every job, tell which did not end well, record how they compare; exit status.

    Raises KeyboardInterrupt, once everything has ended.
    """
    flags = [argument for argument in arguments if argument not in overrides]
    cfg = composed(fixed(overrides))
    folder = Path(str(OmegaConf.select(cfg, "hydra.sweep.dir"))).absolute()
    settings = sweep_settings(cfg)
    try:
        _launch_all(flags, launches(overrides), jobs, folder)
    finally:
        done = outcomes_in(folder)
        for tracking in dict.fromkeys(job.tracking for job in jobs):
            end_running(tracking, folder)
        print(sweep_summary(done, len(jobs)), file=sys.stderr, flush=True)
    _compare(jobs, folder, settings)
    finished = sum(outcome.status == "finished" for _, outcome in done)
    return 0 if finished == len(jobs) else 1


def _launch_all(
    flags: list[str], found: Sequence[Sequence[str]], jobs: Sequence[RunConfig], folder: Path
) -> None:
    """One of Hydra's sweeps for each variant of the experiment, all into one folder."""
    where = f"hydra.sweep.dir='{folder}'"  # children would each make up one of their own
    for number, overrides in enumerate(found):
        apart = [f"hydra.sweep.subdir={number}-${{hydra.job.num}}"] if len(found) > 1 else []
        launcher = _launcher(overrides, jobs)
        try:
            launch([*flags, *overrides, where, *apart, *launcher], run_job)
        except (RuntimeError, OSError) as error:  # a launcher whose process died
            print(f"the launcher failed: {str(error).splitlines()[0]}", file=sys.stderr)


def _launcher(overrides: Sequence[str], jobs: Sequence[RunConfig]) -> list[str]:
    """Runs on the virtual clock go in parallel where nothing else was asked for; runs of real ranks
    would disturb each other."""
    if any(text.startswith(_LAUNCHER) for text in overrides) or len(jobs) == 1:
        return []
    if not all(job.virtual for job in jobs):
        return []
    os.environ |= ONE_THREAD
    count = min(len(os.sched_getaffinity(0)), MOST_CHILDREN, len(jobs))
    return [f"{_LAUNCHER}joblib", f"hydra.launcher.n_jobs={count}", "hydra.launcher.batch_size=1"]


def _compare(jobs: Sequence[RunConfig], folder: Path, settings: SweepConfig) -> None:
    """A comparison that cannot be made costs no run."""
    tracking = jobs[0].tracking
    if len(jobs) < 2 or tracking.uri is None:
        return
    try:
        for line in compare_sweep(tracking, folder, settings.baseline):
            print(line, flush=True)
    except RunFailed as error:
        print(f"not compared: {error}", file=sys.stderr)
