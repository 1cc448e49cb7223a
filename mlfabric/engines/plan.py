"""What every engine is told of a run before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mlfabric.policies.base import PolicyContext


class Trainer(Protocol):
    """What a worker computes with; see `workloads.base.Trainer`."""

    def warm_up(self) -> None: ...

    def load(self) -> None: ...

    def compute(self, view: NDArray[Any]) -> tuple[NDArray[np.int32] | None, NDArray[Any]]: ...


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """One run, as its hosts see it.

    `hosts` are the scheduler, the server, then the workers. `conserved`: updates are counts, a
    dropped one is added to the next. `computation_s(worker, iteration)` is how long one
    computation takes, stragglers included; `nominal_s` without them.
    """

    hosts: tuple[str, ...]
    policy: str
    context: PolicyContext
    conserved: bool
    step_scale: float
    nominal_s: float
    computation_s: Callable[[int, int], float]
    max_seconds: float
    snapshot_interval_s: float

    @property
    def scheduler(self) -> str:
        """The host that plans transfers and keeps time."""
        return self.hosts[0]
