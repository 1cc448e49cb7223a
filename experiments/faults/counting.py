"""Runs on the virtual clock whose models can be checked entry by entry, while faults come."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.faults.schedules import SECONDS, WORKERS, Schedule
from mlfabric.emulation.spec import NO_LINK, RateEvent
from mlfabric.engines.virtual import VirtualPlan, Wire, run
from mlfabric.policies.base import PolicyContext
from mlfabric.topology import Link

SIZE = 1_000
RATE = 1e6
COMPUTE_S = 0.1

Rows = list[dict[str, Any]]
Seen = list[tuple[NDArray[Any], int, float]]

LATEST_INTERRUPTION = 1_000
"""Of a run's events, of which it has a thousand or more."""


class Counting:
    """A worker's update adds 1 to each of the entries: the model tells how many it holds."""

    def __init__(self, worker: int, size: int = SIZE) -> None:
        self._ones = np.ones(size, np.int32)

    def warm_up(self) -> None:
        """Nothing is to be warmed up."""

    def load(self) -> None:
        """Nothing is to be loaded."""

    def compute(self, view: NDArray[Any]) -> tuple[None, NDArray[Any]]:
        """Raises AssertionError where a view has gone negative."""
        assert view.min() >= 0, "a view went negative"
        return None, self._ones.copy()

    def state(self) -> None:
        """Every update is the same."""

    def restore(self, state: None) -> None:
        """So nothing is to be restored."""


def computation_s(worker: int, iteration: int) -> float:
    """A little different each time, so that workers do not move in step."""
    return COMPUTE_S * (1 + 0.1 * ((3 * worker + 7 * iteration) % 5))


class Interrupted(Exception):
    """The run has been saved."""


class Interruption:
    """Saves a run before its `event`-th event, and ends it; or has it go on from there."""

    def __init__(self, event: int, last: bytes | None = None) -> None:
        self.last = last
        self.saved: bytes | None = None
        self._left = event

    def due(self) -> bool:
        """Whether it is time."""
        self._left -= 1
        return self._left == 0

    def save(self, data: bytes, elapsed_s: float) -> None:
        """Raises Interrupted."""
        self.saved = data
        raise Interrupted


def carry_out(schedule: Schedule) -> tuple[Rows, Seen]:
    """Rows of a run that is interrupted once, at some event that its seed tells, and goes on from
    its checkpoint; and every model that was shown, its version and time."""
    event = 1 + int(np.random.default_rng(schedule.seed).integers(LATEST_INTERRUPTION))
    interruption, before = Interruption(event), Seen()
    try:
        return carried_out(schedule, interruption, before), before
    except Interrupted:
        goes_on = Interruption(0, interruption.saved)
    return carried_out(schedule, goes_on, before), before


def carried_out(schedule: Schedule, saves: Interruption | None, seen: Seen) -> Rows:
    """The rows of the run; every model that is shown is added to `seen`."""

    def look(model: NDArray[Any], version: int, elapsed_s: float) -> bool:
        seen.append((model.copy(), version, elapsed_s))
        return False

    model = np.zeros(SIZE, np.int32)
    return run(_plan(schedule), model, Counting, look, lambda elapsed_s, counts: None, saves)


def context_of(schedule: Schedule) -> PolicyContext:
    """Equal links; an update takes as long to send as to compute."""
    return PolicyContext(
        server="server",
        workers=schedule.hosts[2 : 2 + WORKERS],
        line_bytes_per_s=dict.fromkeys(schedule.hosts, RATE),
        model_bytes=int(RATE * COMPUTE_S),
        chunk_bytes=10_000,
        straggler_period_s=1.5,
        seed=schedule.seed,
        options=_options(schedule),
        replication=schedule.replication,
    )


def _plan(schedule: Schedule) -> VirtualPlan:
    hosts = schedule.hosts
    return VirtualPlan(
        hosts=hosts,
        policy=schedule.policy,
        context=context_of(schedule),
        conserved=True,
        step_scale=1.0,
        nominal_s=COMPUTE_S,
        computation_s=computation_s,
        max_seconds=SECONDS,
        snapshot_interval_s=0.1,
        faults=schedule.faults,
        link_bytes_per_s={Link(h, way): RATE for h in hosts for way in ("egress", "ingress")},
        rate_events=rate_events(schedule),
        max_updates=None,
        wire=Wire(byte_scale=RATE * COMPUTE_S / (4 * SIZE)),
        message_s=0.001,
        hop_s=0.0001,
        startup_s=0.002,
        share_spread=0.3,
        goodput=1.0,
        reserved_rates=False,
        collective="flow",
        lost_after_s=1.2,
    )


def rate_events(schedule: Schedule) -> tuple[RateEvent, ...]:
    """Two slow links from the first second on, and what is cut off for a while."""
    events = [RateEvent(1.0, host, factor) for host, factor in schedule.slow]
    factors = dict(schedule.slow)
    for fault in schedule.faults:
        if fault.kind == "partition" and fault.host is not None:
            events.append(RateEvent(fault.at_s, fault.host, NO_LINK))
            back_s = fault.at_s + fault.duration_s
            events.append(RateEvent(back_s, fault.host, factors.get(fault.host, 1.0)))
    return tuple(sorted(events, key=lambda event: event.time_s))


def _options(schedule: Schedule) -> dict[str, Any]:
    """Of every policy at once; each reads its own."""
    return {
        "delay_bound": 6 if schedule.policy == "async_bounded" else schedule.delay_bound,
        "ordering": "shortest",
        "aggregation": schedule.aggregation,
        "aggregators": None,
        "aggregator_choice": "random",
        "bandwidth": "measured",
        "probes": False,
        "staleness": 3,
        "backups": 1,
        "momentum": 0.0,
        "step_rule": "constant",
        "adadelay_c": 0.02,
    }
