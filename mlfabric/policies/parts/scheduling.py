"""What every policy that plans its transfers asks of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from mlfabric.policies.base import AtLeast, PolicyContext
from mlfabric.policies.parts.steps import step_rule

if TYPE_CHECKING:
    from mlfabric.scheduler import Scheduler

BATCH_UPDATES = {"none": 1024, "paper": 1024, "refined": 256, "pipelined": 256}
"""Updates that one plan holds at most: planning costs about 0.1 ms an update or less [ours]."""


@dataclass(frozen=True)
class SchedulingOptions:
    """`aggregators`: how many worker hosts may sum (None: all but the server's own). With `probes`,
    links that were slow and are idle are tried with a few chunks now and then."""

    ordering: Literal["shortest", "delay_aware"]
    aggregation: Literal["none", "paper", "pipelined"]
    aggregators: Annotated[int, AtLeast(0)] | None
    aggregator_choice: Literal["in_order", "random", "best_fit"]
    bandwidth: Literal["measured", "oracle"]
    probes: bool


def scheduler(
    context: PolicyContext, *, delay_bound: int | None, synchronous: bool = False
) -> Scheduler:
    """The scheduler that these options ask for; `delay_bound` in versions."""
    from mlfabric.scheduler import Scheduler, SchedulerSettings  # compiled: on its own rank alone

    options = context.options
    count = options["aggregators"]
    idle = [worker for worker in context.workers if worker != context.server]
    settings = SchedulerSettings(
        server=context.server,
        workers=context.workers,
        delay_bound=delay_bound,
        ordering=options["ordering"],
        aggregation=options["aggregation"],
        aggregators=tuple(idle[:count]),
        aggregator_choice=options["aggregator_choice"],
        model_bytes=context.model_bytes,
        line_bytes_per_s=context.line_bytes_per_s,
        bandwidth=options["bandwidth"],
        probes=options["probes"],
        rate_memory_s=context.straggler_period_s,
        chunk_bytes=context.chunk_bytes,
        seed=context.seed,
        topology=context.topology,
        batch_updates=BATCH_UPDATES[options["aggregation"]],
        synchronous=synchronous,
        step_rule=step_rule(options),
        replication=context.replication,
        momentum=options.get("momentum", 0.0) if synchronous else 0.0,
    )
    return Scheduler(settings)
