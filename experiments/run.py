"""`python -m experiments.run [-m] key=value …`: one run, or a sweep of runs one after another.

Exit status: 0 finished and valid, 1 not, 2 settings refused, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from experiments.hydra_app import launch
from experiments.interrupts import INTERRUPTED, interrupt_once
from experiments.outcome import Outcome
from experiments.overrides import validate
from experiments.schema import RunConfig
from experiments.sections import TrackingConfig
from mlfabric.errors import SettingError

REFUSED = 2
# Hydra's own options that would lead past the checked settings.
_FOREIGN = ("config_path", "config_name", "config_dir", "experimental_rerun")
# Options that show something instead of running.
_SHOWING = ("help", "hydra_help", "cfg", "info", "shell_completion")


def main(arguments: list[str]) -> int:
    """Check every job of the command line, then run them; returns the exit status."""
    try:
        options = _options(arguments)
        jobs = validate(options.overrides, multirun=options.multirun)
        if not jobs:
            raise SettingError(f"{' '.join(options.overrides)}: must name at least one run")
    except SettingError as error:
        print(error, file=sys.stderr)
        return REFUSED
    if any(getattr(options, name) for name in _SHOWING):
        launch(arguments, lambda cfg: None)
        return 0
    return _run_all(arguments, options, jobs)


def _run_all(arguments: list[str], options: argparse.Namespace, jobs: list[RunConfig]) -> int:
    from experiments.errors import RunFailed

    interrupt_once()
    try:
        for tracking in dict.fromkeys(job.tracking for job in jobs):
            _open_store(tracking)
        if options.multirun:
            from experiments.sweep import carry_out

            return carry_out(arguments, options.overrides, jobs)
        return _run_one(arguments)
    except KeyboardInterrupt:
        print("interrupted; nothing is left running", file=sys.stderr)
        return INTERRUPTED
    except (RunFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _open_store(tracking: TrackingConfig) -> None:
    """Create it before any run starts, and say where it is."""
    if tracking.uri is not None:
        from experiments.tracking import create_store

        create_store(tracking)
    print(f"tracking: {tracking.uri or 'none'}", flush=True)


def _run_one(arguments: list[str]) -> int:
    from experiments.job import run_job

    done: list[Outcome | None] = []
    launch(arguments, lambda cfg: done.append(run_job(cfg)))
    return 0 if [outcome and outcome.status for outcome in done] == ["finished"] else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    options = parser.parse_args(arguments)
    for name in _FOREIGN:
        if getattr(options, name) is not None:
            raise SettingError(f"--{name.replace('_', '-')}: settings come from conf/ alone")
    return options


def _refuse(message: str) -> NoReturn:
    raise SettingError(f"{message}; options such as -m come before all key=value")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
