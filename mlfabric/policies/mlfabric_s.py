"""MLfabric-S: all updates of an iteration are scheduled and summed, then applied at once [paper].

Nothing is dropped; the model spreads along a tree once the server has applied the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlfabric.policies.base import Coordinator, MomentumOptions, PolicyContext
from mlfabric.policies.parts.scheduling import SchedulingOptions, scheduler

PLACE: Literal["scheduler"] = "scheduler"
SENDS_AT_ONCE = False


@dataclass(frozen=True)
class Options(SchedulingOptions, MomentumOptions):
    """How transfers are scheduled, and the server's momentum."""


def build(context: PolicyContext) -> Coordinator:
    """The scheduler."""
    return scheduler(context, delay_bound=None, synchronous=True)
