"""Which transfers run now, what they take of each link, and what is free."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from mlfabric.planning.profile import Profile
from mlfabric.planning.residual import Network, Residual
from mlfabric.topology import Link

START_SHARE = 0.5
"""A transfer starts when its path has this share of its bandwidth free [ours]: it neither waits
for a slow transfer that leaves most of the link idle, nor squeezes in beside a fast one."""


@dataclass
class Transfer:
    """A transfer from its planning to its end."""

    id: str
    kind: Literal["update", "sum", "model"]
    updates: tuple[str, ...]
    src: str
    dst: str
    bytes: float
    started_s: float | None = None
    expected_bytes_per_s: float = 0.0
    seen_bytes_per_s: float | None = None
    parent: Transfer | None = None

    def remaining(self, now: float) -> float:
        """Bytes that are still to come if it runs as expected."""
        if self.started_s is None:
            return self.bytes
        return max(self.bytes - (now - self.started_s) * self.expected_bytes_per_s, 0.0)

    def seconds_left(self, now: float) -> float:
        """Time to its end if it runs as expected."""
        rate = self.expected_bytes_per_s
        return self.remaining(now) / rate if rate > 0 else math.inf

    def correct(self, arrived_bytes: int, bytes_per_s: float, now: float) -> None:
        """Expect it to go on as it has been seen to come."""
        self.expected_bytes_per_s = bytes_per_s
        self.started_s = now - arrived_bytes / bytes_per_s


@dataclass
class LinkLoads:
    """Running transfers in the order of their start; each takes what it is expected to."""

    rate: Callable[[Link, float], float]
    network: Network
    running: dict[str, Transfer] = field(default_factory=dict)

    def free(self, now: float) -> dict[Link, float]:
        """Bytes/s that each link has left."""
        left = {link: self.rate(link, now) for link in self.network.link_row}
        for transfer in self.running.values():
            links = self._path(transfer)
            share = min(transfer.expected_bytes_per_s, *(left[link] for link in links))
            for link in links:
                left[link] -= share
        return left

    def may_start(self, transfer: Transfer, now: float) -> bool:
        """Whether every link of its path has `START_SHARE` of the path's bandwidth free."""
        free, links = self.free(now), self._path(transfer)
        wanted = START_SHARE * min(self.rate(link, now) for link in links)
        return all(free[link] >= wanted for link in links)

    def start(self, transfer: Transfer, now: float) -> None:
        """Count it as running; it is expected to take what its path has free, half at least."""
        free, links = self.free(now), self._path(transfer)
        transfer.started_s = now
        share = min(free[link] for link in links)
        fair = START_SHARE * min(self.rate(link, now) for link in links)
        transfer.expected_bytes_per_s = max(share, fair)
        self.running[transfer.id] = transfer

    def stop(self, transfer_id: str) -> None:
        """Its links are free from now on; nothing happens where it does not run."""
        self.running.pop(transfer_id, None)

    def residual(self, queued: Iterable[Transfer], now: float) -> Residual:
        """Profiles from `now` on, less what running and then queued transfers will use."""
        rates = {
            link: Profile.constant(self.rate(link, now), now) for link in self.network.link_row
        }
        residual = self.network.residual(rates)
        for transfer in (*self.running.values(), *queued):
            residual.reserve(transfer.src, transfer.dst, now, transfer.remaining(now))
        return residual

    def _path(self, transfer: Transfer) -> tuple[Link, ...]:
        return self.network.topology.path(transfer.src, transfer.dst)
