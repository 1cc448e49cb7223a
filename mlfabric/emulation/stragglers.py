"""Network and compute stragglers as pure functions of a seed; traces of them as CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mlfabric.emulation.spec import RateEvent
from mlfabric.errors import SettingError

_HEADER = ["time_s", "host", "factor"]
_NETWORK_DRAWS = 1
_COMPUTE_DRAWS = 2


@dataclass(frozen=True)
class NetworkStragglers:
    """Each period each link, with this probability, runs at `factor` of its bandwidth [ours]."""

    probability: float
    factor: float
    period_s: float

    def __post_init__(self) -> None:
        _require(0 <= self.probability <= 1, "network.probability", self.probability, "in [0, 1]")
        _require(0 < self.factor <= 1, "network.factor", self.factor, "in (0, 1]")
        _require(0 < self.period_s < math.inf, "network.period_s", self.period_s, "above 0")


@dataclass(frozen=True)
class ComputeStragglers:
    """Each computation, with this probability, takes U[1, max_factor] times as long [ours]."""

    probability: float
    max_factor: float

    def __post_init__(self) -> None:
        _require(0 <= self.probability <= 1, "compute.probability", self.probability, "in [0, 1]")
        sane = 1 <= self.max_factor < math.inf
        _require(sane, "compute.max_factor", self.max_factor, "at least 1")


def network_events(
    stragglers: NetworkStragglers, hosts: Sequence[str], seed: int, horizon_s: float
) -> list[RateEvent]:
    """Changes of the hosts' link rates before `horizon_s`, by time; links start at full rate.

    What a host meets depends on seed, host name and period alone: not on the other hosts asked for,
    nor on the horizon.
    """
    periods = math.ceil(horizon_s / stragglers.period_s)
    events = [e for host in hosts for e in _host_events(stragglers, host, seed, periods)]
    return sorted(events, key=lambda event: event.time_s)


def compute_factor(stragglers: ComputeStragglers, seed: int, worker: int, iteration: int) -> float:
    """A worker's computation time over the nominal one; a function of the arguments alone."""
    draws = _uniforms(2, seed, _COMPUTE_DRAWS, worker, iteration)
    if draws[0] >= stragglers.probability:
        return 1.0
    return float(1 + (stragglers.max_factor - 1) * draws[1])


def write_trace(path: Path, events: Iterable[RateEvent]) -> None:
    """Write a trace as CSV with the columns time_s, host, factor."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(_HEADER)
        rows.writerows([event.time_s, event.host, event.factor] for event in events)


def read_trace(path: Path) -> list[RateEvent]:
    """Read a trace, sorted by time.

    Raises:
        SettingError: a row is malformed or out of range; names file and line.
        OSError: the file cannot be read.
    """
    with path.open(newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        _require(header == _HEADER, f"{path}:1: header", ",".join(header), ",".join(_HEADER))
        events = [_event(row, f"{path}:{rows.line_num}") for row in rows]
    return sorted(events, key=lambda event: event.time_s)


def _host_events(
    stragglers: NetworkStragglers, host: str, seed: int, periods: int
) -> list[RateEvent]:
    events, current = [], 1.0
    for period in range(periods):
        name = int.from_bytes(host.encode(), "little")
        slow = _uniforms(1, seed, _NETWORK_DRAWS, period, name)[0] < stragglers.probability
        factor = stragglers.factor if slow else 1.0
        if factor != current:
            events.append(RateEvent(period * stragglers.period_s, host, factor))
            current = factor
    return events


def _uniforms(count: int, *key: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), float64, that depend on the key alone."""
    return np.random.default_rng(np.random.SeedSequence(key)).random(count)


def _event(row: Sequence[str], where: str) -> RateEvent:
    try:
        time_s, host, factor = row
        event = RateEvent(float(time_s), host, float(factor))
    except ValueError:
        raise SettingError(f"{where}: {','.join(row)!r}; allowed: number,host,number") from None
    _require(0 <= event.time_s < math.inf, f"{where}: time_s", event.time_s, "0 or more")
    _require(0 < event.factor <= 1, f"{where}: factor", event.factor, "in (0, 1]")
    return event


def _require(holds: bool, key: str, value: object, allowed: str) -> None:
    if not holds:
        raise SettingError(f"{key} is {value!r}; allowed: {allowed}")
