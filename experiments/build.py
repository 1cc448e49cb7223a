"""Typed settings to the objects of a run: the one place that knows every workload's constructor."""

from __future__ import annotations

import dataclasses

from experiments.paths import CACHE
from experiments.schema import RunConfig
from experiments.sections import PldaConfig, ResnetConfig
from workloads.base import Workload

# Settings that say which workload, not what it does.
_SELECTORS = ("kind", "framework", "targets", "timing_only")


def build_workload(config: RunConfig) -> Workload:
    """The workload of a run, its data not yet prepared; a framework is imported with its model."""
    settings = dataclasses.asdict(config.workload)
    arguments = {key: value for key, value in settings.items() if key not in _SELECTORS}
    match config.workload:
        case PldaConfig():
            from workloads.plda import Plda

            return Plda(**arguments, seed=config.seed, cache_dir=CACHE)
        case ResnetConfig():
            from workloads.resnet import Resnet

            return Resnet(**arguments, seed=config.seed, cache_dir=CACHE)
