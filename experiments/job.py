"""One job of a launch, in whatever process Hydra's launcher starts it."""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path

from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from experiments.execute import execute
from experiments.interrupts import interrupt_once
from experiments.naming import run_name
from experiments.outcome import Outcome, outcomes_in
from experiments.progress import Progress
from experiments.schema import from_omegaconf
from experiments.sweep_settings import sweep_settings
from mlfabric.emulation.namespaces import die_with_parent


def run_job(cfg: DictConfig) -> Outcome | None:
    """Carry out one run and tell how it ended; None where the sweep ends at a failed one.

    Raises KeyboardInterrupt where it was interrupted.
    """
    settings = HydraConfig.get()
    run_dir = Path(settings.runtime.output_dir)
    abreast = settings.mode == RunMode.MULTIRUN and "joblib" in settings.launcher._target_
    if abreast:  # a process of our own
        interrupt_once()
        die_with_parent(signal.SIGINT)
    sweep_dir = Path(settings.sweep.dir)
    if sweep_settings(cfg).stop_at_failure and _another_has_failed(sweep_dir, run_dir):
        return None
    if not abreast:
        print(f"run {_number(settings)}: {run_dir}", flush=True)
    progress = Progress(io.StringIO() if abreast else None)
    config = from_omegaconf(cfg)
    outcome = execute(config, run_dir, progress)
    _tell(f"{run_name(config)}: " if abreast else "", outcome)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    return outcome


def _number(settings: HydraConf) -> int:
    """Of the job in its sweep, from 1; a run of its own has none of Hydra's."""
    return 1 if settings.mode == RunMode.RUN else int(settings.job.num) + 1


def _another_has_failed(sweep_dir: Path, run_dir: Path) -> bool:
    """One that was interrupted, and this one itself, may go on."""
    return any(
        outcome.status not in ("finished", "running")
        and outcome.line != "interrupted"
        and outcome.run_dir != run_dir
        for _, outcome in outcomes_in(sweep_dir)
    )


def _tell(name: str, outcome: Outcome) -> None:
    good = outcome.status == "finished"
    if outcome.details:
        print(outcome.details.rstrip(), file=sys.stderr)
    print(f"{name}{outcome}", file=sys.stdout if good else sys.stderr, flush=True)
