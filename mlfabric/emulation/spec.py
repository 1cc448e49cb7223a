"""What a bubble is asked to hold: hosts, their rates, a command, a straggler trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlfabric.emulation.hosts import MAX_HOSTS
from mlfabric.errors import SettingError

NO_LINK = 1e-9
"""The factor of a link that is down."""

TOLERATED_MISS = 0.05
"""A shaped link that misses its rate by a larger share is reported."""


@dataclass(frozen=True)
class HostSpec:
    """One emulated host; both directions of its link have this rate."""

    name: str
    bandwidth_bytes_per_s: float


@dataclass(frozen=True)
class RateEvent:
    """From `time_s` on, both directions of a host's link run at `factor` times its bandwidth."""

    time_s: float
    host: str
    factor: float


@dataclass(frozen=True)
class BubbleSpec:
    """One run: hosts in rank order, the command started among them, the fate of their links."""

    hosts: tuple[HostSpec, ...]
    congestion_control: str
    rate_events: tuple[RateEvent, ...]
    run_dir: Path
    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    launcher_pid: int | None

    def __post_init__(self) -> None:
        names = [host.name for host in self.hosts]
        _require(1 <= len(names) <= MAX_HOSTS, "hosts", len(names), f"1 to {MAX_HOSTS} hosts")
        _require(len(set(names)) == len(names), "hosts", names, "distinct names")
        for host in self.hosts:
            _require(host.name.isidentifier(), "name of a host", host.name, "letters and digits")
            rate = host.bandwidth_bytes_per_s
            _require(rate >= 1, f"bandwidth of {host.name}", rate, "at least 1 byte/s")
        for event in self.rate_events:
            _require(event.host in names, "host of a rate event", event.host, f"one of {names}")
            _require(0 < event.factor <= 1, "factor of a rate event", event.factor, "in (0, 1]")
        _require(len(self.command) > 0, "command", list(self.command), "at least a program")


def read_spec(path: Path) -> BubbleSpec:
    """Read a JSON spec.

    Raises:
        SettingError: a key is missing, unknown or out of range; names file and key.
        OSError: the file cannot be read.
    """
    text = path.read_text()
    try:
        return _from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise SettingError(f"{path}: {type(error).__name__}: {error}") from error


def _from_json(raw: Mapping[str, Any]) -> BubbleSpec:
    events = [RateEvent(*event) for event in raw["rate_events"]]
    return BubbleSpec(
        hosts=tuple(HostSpec(**host) for host in raw["hosts"]),
        congestion_control=raw["congestion_control"],
        rate_events=tuple(sorted(events, key=lambda event: event.time_s)),
        run_dir=Path(raw["run_dir"]),
        command=tuple(raw["command"]),
        env=dict(raw["env"]),
        cwd=Path(raw["cwd"]),
        launcher_pid=raw.get("launcher_pid"),
    )


def _require(holds: bool, key: str, value: object, allowed: str) -> None:
    if not holds:
        raise SettingError(f"{key} is {value!r}; allowed: {allowed}")
