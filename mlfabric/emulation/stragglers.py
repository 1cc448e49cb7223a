"""Network and compute stragglers as pure functions of a seed; traces of them as CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mlfabric.emulation.draws import uniforms, words
from mlfabric.emulation.spec import RateEvent
from mlfabric.errors import SettingError

_HEADER = ["time_s", "host", "factor"]
_NETWORK_DRAWS = 1
_COMPUTE_DRAWS = 2
_DRAWS_AT_ONCE = 1_000_000


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
    if stragglers.probability == 0 or stragglers.factor == 1 or periods <= 0:
        return []
    slow = _slow(stragglers, hosts, seed, periods)
    before = np.zeros_like(slow)
    before[1:] = slow[:-1]
    changes = np.argwhere(slow != before).tolist()
    factors = {True: stragglers.factor, False: 1.0}
    return [
        RateEvent(period * stragglers.period_s, hosts[host], factors[bool(slow[period, host])])
        for period, host in changes
    ]


def compute_factor(stragglers: ComputeStragglers, seed: int, worker: int, iteration: int) -> float:
    """A worker's computation time over the nominal one; a function of the arguments alone."""
    if stragglers.probability == 0:
        return 1.0
    key = np.random.SeedSequence((seed, _COMPUTE_DRAWS, worker, iteration))
    return float(_factors(stragglers, np.random.default_rng(key).random((1, 2)))[0])


def compute_factors(
    stragglers: ComputeStragglers, seed: int, worker: int, iterations: range
) -> npt.NDArray[np.float64]:
    """What `compute_factor` gives for these iterations, at a fraction of the price."""
    if stragglers.probability == 0:
        return np.ones(len(iterations))
    each = np.asarray(iterations, np.uint32)
    return _factors(stragglers, uniforms([*words(seed), _COMPUTE_DRAWS, worker, each], 2))


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


def _slow(
    stragglers: NetworkStragglers, hosts: Sequence[str], seed: int, periods: int
) -> npt.NDArray[np.bool_]:
    """Whether a host's link is slow: one row a period, one column a host."""
    slow = np.empty((periods, len(hosts)), bool)
    step = max(1, _DRAWS_AT_ONCE // periods)
    names = [words(int.from_bytes(host.encode(), "little")) for host in hosts]
    for length in sorted({len(name) for name in names}):
        chosen = [place for place, name in enumerate(names) if len(name) == length]
        for some in (chosen[i : i + step] for i in range(0, len(chosen), step)):
            of_name = np.array([names[place] for place in some], np.uint32).T
            of_period = np.arange(periods, dtype=np.uint32)[:, np.newaxis]
            draws = uniforms([*words(seed), _NETWORK_DRAWS, of_period, *of_name], 1)
            slow[:, some] = draws.reshape(periods, -1) < stragglers.probability
    return slow


def _factors(
    stragglers: ComputeStragglers, draws: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Factors of computations, from two numbers in [0, 1) for each."""
    slowed = 1 + (stragglers.max_factor - 1) * draws[:, 1]
    return np.where(draws[:, 0] < stragglers.probability, slowed, 1.0)


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
