"""MLfabric-A, the paper's system: asynchronous, delays bounded, sums made at idle hosts."""

from __future__ import annotations

from typing import Literal

from mlfabric.policies.base import PolicyContext
from mlfabric.scheduler import Scheduler, SchedulerSettings


class MlfabricA(Scheduler):
    """The scheduler on a host of its own; workers send when told."""

    place: Literal["scheduler", "server"] = "scheduler"
    sends_at_once = False

    @property
    def reads_rates(self) -> bool:
        """Whether bandwidth comes from the emulator (oracle) and not from measurements."""
        return self.settings.bandwidth == "oracle"


def build(context: PolicyContext) -> MlfabricA:
    """Options: delay_bound in versions (None: none), aggregation, aggregators (how many worker
    hosts may sum; None: all), aggregator_choice, bandwidth."""
    options = context.options
    count = options["aggregators"]
    slowest = min(context.line_bytes_per_s.values())
    settings = SchedulerSettings(
        server=context.server,
        workers=context.workers,
        delay_bound=options["delay_bound"],
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
