"""Typed settings to the workload of a run."""

from __future__ import annotations

from typing import Any

from experiments.paths import CACHE
from experiments.workload_class import WorkloadConfig
from workloads import kinds
from workloads.base import Workload


def build_workload(settings: WorkloadConfig, seed: int) -> Workload:
    """The workload of a run, its data not yet prepared; a framework is imported with its model."""
    make: Any = kinds.workload_class(settings.kind)
    made: Workload = make(name=settings.name, seed=seed, cache_dir=CACHE, **settings.own())
    return made
