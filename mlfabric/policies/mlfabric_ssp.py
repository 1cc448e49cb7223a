"""MLfabric-SSP: no worker far ahead of the slowest, transfers scheduled as in MLfabric-A."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlfabric.policies.base import Coordinator, DelayBound, PolicyContext
from mlfabric.policies.parts.scheduling import SchedulingOptions, scheduler
from mlfabric.policies.parts.staleness import StalenessGate, StalenessOptions
from mlfabric.policies.parts.steps import StepOptions

PLACE: Literal["scheduler"] = "scheduler"
SENDS_AT_ONCE = False


@dataclass(frozen=True)
class Options(StepOptions, StalenessOptions, SchedulingOptions):
    """`delay_bound`: as in `mlfabric_a`; the staleness bounds delays, too."""

    delay_bound: DelayBound


def build(context: PolicyContext) -> Coordinator:
    """The scheduler behind a gate."""
    inner = scheduler(context, delay_bound=context.options["delay_bound"])
    return StalenessGate(inner, context)
