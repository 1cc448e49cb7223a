"""MLfabric-A, the paper's system: asynchronous, delays bounded, sums made at idle hosts."""

from __future__ import annotations

from typing import Literal

from mlfabric.policies.base import PolicyContext
from mlfabric.scheduler import Scheduler, SchedulerSettings


class MlfabricA(Scheduler):
    """The scheduler on a host of its own; workers send when told."""

    place: Literal["scheduler", "server"] = "scheduler"
    sends_at_once = False


def build(context: PolicyContext) -> MlfabricA:
    """Options: delay_bound (None: 2(n - 1) versions for n workers [ours]), aggregation,
    aggregators (how many worker hosts may sum; None: all), aggregator_choice, bandwidth."""
    options = context.options
    bound, count = options["delay_bound"], options["aggregators"]
    slowest = min(context.line_bytes_per_s.values())
    settings = SchedulerSettings(
        server=context.server,
        workers=context.workers,
        delay_bound=2 * (len(context.workers) - 1) if bound is None else bound,
        aggregation=options["aggregation"],
        aggregators=context.workers[: len(context.workers) if count is None else count],
        aggregator_choice=options["aggregator_choice"],
        model_bytes=context.model_bytes,
        line_bytes_per_s=context.line_bytes_per_s,
        bandwidth=options["bandwidth"],
        rate_memory_s=context.straggler_period_s,
        hop_latency_s=context.chunk_bytes / slowest,
        seed=context.seed,
    )
    return MlfabricA(settings)
