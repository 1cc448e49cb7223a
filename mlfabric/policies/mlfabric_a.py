"""MLfabric-A, the paper's system: asynchronous, delays bounded, sums made at idle hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlfabric.policies.base import Coordinator, DelayBound, PolicyContext
from mlfabric.policies.parts.scheduling import SchedulingOptions, scheduler
from mlfabric.policies.parts.steps import StepOptions

PLACE: Literal["scheduler"] = "scheduler"
SENDS_AT_ONCE = False


@dataclass(frozen=True)
class Options(StepOptions, SchedulingOptions):
    """`delay_bound`: an update that would be later than this, in versions, is not sent."""

    delay_bound: DelayBound


def build(context: PolicyContext) -> Coordinator:
    """The scheduler."""
    return scheduler(context, delay_bound=context.options["delay_bound"])
