"""What a scheduler is told once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from mlfabric.planning.aggregation import AggregatorChoice
from mlfabric.planning.batch import Aggregation, OrderingRule
from mlfabric.policies.base import Replication
from mlfabric.topology import BIG_SWITCH, Topology


@dataclass(frozen=True)
class SchedulerSettings:
    """The cluster, the model, and how to plan.

    `delay_bound` in versions (None: unbounded); `aggregators` are the hosts that may sum;
    `model_bytes` is the dense size of the model; `line_bytes_per_s` the nominal rate of each host's
    link, and of each switch's uplink; `bandwidth` whether rates are learned from transfers or told
    by the emulator; `rate_memory_s` how long an unconfirmed low estimate is believed; `chunk_bytes`
    what a hop passes on at a time. One plan holds at most `batch_updates`, those that have waited
    longest. With `synchronous`, updates are applied once all workers' have arrived. With `probes`,
    idle links that were slow are tried now and then. `step_rule(version, delay)` is what an update
    is multiplied by (None: 1). A replica follows the server as `replication` says; `momentum` is
    the server's.
    """

    server: str
    workers: tuple[str, ...]
    delay_bound: int | None
    ordering: OrderingRule
    aggregation: Aggregation
    aggregators: tuple[str, ...]
    aggregator_choice: AggregatorChoice
    model_bytes: int
    line_bytes_per_s: Mapping[str, float]
    bandwidth: Literal["measured", "oracle"]
    rate_memory_s: float
    chunk_bytes: int
    seed: int
    topology: Topology = BIG_SWITCH
    batch_updates: int = 256
    synchronous: bool = False
    probes: bool = False
    step_rule: Callable[[int, int], float] | None = None
    replication: Replication | None = None
    momentum: float = 0.0
