"""What every engine is told of a run before it starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mlfabric.policies.base import PolicyContext


class Trainer(Protocol):
    """What a worker computes with; see `workloads.base.Trainer`."""

    def warm_up(self) -> None: ...

    def load(self) -> None: ...

    def compute(self, view: NDArray[Any]) -> tuple[NDArray[np.int32] | None, NDArray[Any]]: ...

    def state(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


@dataclass(frozen=True)
class Fault:
    """Something that is done to a host while a run goes on.

    `kill`: the host is gone at `at_s`; without a name, the first one that sums for others from then
    on, in the middle of that. `partition`: its link carries nothing for `duration_s`.
    """

    kind: Literal["kill", "partition"]
    at_s: float
    host: str | None
    duration_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """One run, as its hosts see it.

    `hosts` are the scheduler and all others; `servers` those that keep a shard of the parameters
    each, in order: a worker may be one of them. `context` is that of all, with the first server's
    name. `conserved`: updates are counts, a
    dropped one is added to the next. `computation_s(worker, iteration)` is how long one
    computation takes, stragglers included; `nominal_s` without them. `faults` are injected; with
    `fault_tolerant` the run goes on without a host that is lost.
    """

    hosts: tuple[str, ...]
    servers: tuple[str, ...] = ("server",)
    policy: str
    context: PolicyContext
    conserved: bool
    step_scale: float
    nominal_s: float
    computation_s: Callable[[int, int], float]
    max_seconds: float
    snapshot_interval_s: float
    faults: tuple[Fault, ...] = ()
    fault_tolerant: bool = False

    @property
    def scheduler(self) -> str:
        """The host that plans transfers and keeps time."""
        return self.hosts[0]

    @cached_property
    def worker_number(self) -> dict[str, int]:
        """The number of every worker, by its host."""
        return {host: number for number, host in enumerate(self.context.workers)}

    @cached_property
    def contexts(self) -> tuple[PolicyContext, ...]:
        """What the policy is told that looks after each server's shard.

        A worker sends to all servers at once: of its link, each may count on an equal part [ours].
        """
        context, count = self.context, len(self.servers)
        if count == 1:
            return (context,)
        shared = {worker: context.line_bytes_per_s[worker] / count for worker in context.workers}
        return tuple(
            replace(
                context,
                server=server,
                line_bytes_per_s={
                    **context.line_bytes_per_s,
                    **shared,
                    server: context.line_bytes_per_s[server],
                },
                model_bytes=math.ceil(context.model_bytes / count),
                seed=context.seed + shard,
            )
            for shard, server in enumerate(self.servers)
        )
