"""MLfabric-A, the paper's system: asynchronous, delays bounded, sums made at idle hosts."""

from __future__ import annotations

from typing import Literal

from mlfabric.policies.base import Coordinator, PolicyContext

PLACE: Literal["scheduler", "server"] = "scheduler"
SENDS_AT_ONCE = False

BATCH_UPDATES = {"none": 1024, "paper": 1024, "refined": 256, "pipelined": 256}
"""Updates that one plan holds at most: planning costs about 0.1 ms an update or less [ours]."""


def build(context: PolicyContext) -> Coordinator:
    """Options: delay_bound in versions (None: none), ordering, aggregation, aggregators (how many
    worker hosts may sum; None: all), aggregator_choice, bandwidth."""
    from mlfabric.scheduler import Scheduler, SchedulerSettings  # compiled: on its own rank alone

    options = context.options
    count = options["aggregators"]
    settings = SchedulerSettings(
        server=context.server,
        workers=context.workers,
        delay_bound=options["delay_bound"],
        ordering=options["ordering"],
        aggregation=options["aggregation"],
        aggregators=context.workers[: len(context.workers) if count is None else count],
        aggregator_choice=options["aggregator_choice"],
        model_bytes=context.model_bytes,
        line_bytes_per_s=context.line_bytes_per_s,
        bandwidth=options["bandwidth"],
        rate_memory_s=context.straggler_period_s,
        chunk_bytes=context.chunk_bytes,
        seed=context.seed,
        topology=context.topology,
        batch_updates=BATCH_UPDATES[options["aggregation"]],
    )
    return Scheduler(settings)
