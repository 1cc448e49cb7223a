"""`python -m experiments.run [-m] key=value …`: one run, or a sweep of runs one after another.

Exit status: 0 finished and valid, 1 not, 2 settings refused, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from experiments.interrupts import INTERRUPTED, interrupt_once
from experiments.outcome import Outcome, sweep_summary
from experiments.overrides import launches, search_path, validate
from experiments.paths import CONF
from experiments.schema import RunConfig, from_omegaconf
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
        _hydra(arguments, lambda cfg: None)
        return 0
    return _run_all(_launches(arguments, options), jobs)


def _launches(arguments: list[str], options: argparse.Namespace) -> list[list[str]]:
    """Hydra's command lines: a sweep is one for each variant of its experiment."""
    if not options.multirun:
        return [arguments]
    flags = [argument for argument in arguments if argument not in options.overrides]
    found = launches(options.overrides)
    if len(found) == 1:
        return [[*flags, *found[0]]]
    apart = "hydra.sweep.subdir={}-${{hydra.job.num}}"
    return [[*flags, *launch, apart.format(number)] for number, launch in enumerate(found)]


def _run_all(commands: list[list[str]], jobs: list[RunConfig]) -> int:
    from experiments.errors import RunFailed

    interrupt_once()
    done: list[tuple[str, Outcome]] = []
    try:
        for tracking in dict.fromkeys(job.tracking for job in jobs):
            _open_store(tracking)
        for command in commands:
            _hydra(command, lambda cfg: done.append(_run_one(cfg, len(done), len(jobs))))
    except KeyboardInterrupt:
        print("interrupted; nothing is left running", file=sys.stderr)
        return INTERRUPTED
    except (RunFailed, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if len(jobs) > 1:
            print(sweep_summary(done, len(jobs)), file=sys.stderr)
    return 0 if all(outcome.status == "finished" for _, outcome in done) else 1


def _open_store(tracking: TrackingConfig) -> None:
    """Create it before any run starts, and say where it is."""
    if tracking.uri is not None:
        from experiments.tracking import create_store

        create_store(tracking)
    print(f"tracking: {tracking.uri or 'none'}", flush=True)


def _run_one(cfg: DictConfig, index: int, jobs: int) -> tuple[str, Outcome]:
    from experiments.execute import execute

    settings = HydraConfig.get()
    name = " ".join(settings.overrides.task)
    run_dir = Path(settings.runtime.output_dir)
    print(f"run {index + 1} of {jobs}: {run_dir}", flush=True)
    outcome = execute(from_omegaconf(cfg), run_dir)
    good = outcome.status == "finished"
    if outcome.details:
        print(outcome.details.rstrip(), file=sys.stderr)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    print(outcome, file=sys.stdout if good else sys.stderr, flush=True)
    return name, outcome


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


def _hydra(arguments: list[str], task: Callable[[DictConfig], None]) -> None:
    """Compose as Hydra does and call task(cfg) for each job; its errors are raised, not printed."""
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.argv = [sys.argv[0], *arguments, *search_path()]
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(task)()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
