"""Bandwidth of a link as a piecewise-constant function of time [paper, Fig. 4]."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple


class Piece(NamedTuple):
    """A stretch of time, in seconds, at a constant rate in bytes/s."""

    start: float
    end: float
    bytes_per_s: float


@dataclass(frozen=True)
class Profile:
    """rates[i] bytes/s from times[i] to times[i+1]; the last for ever; times[0] is the origin."""

    times: tuple[float, ...]
    rates: tuple[float, ...]

    @classmethod
    def constant(cls, bytes_per_s: float, origin: float = 0.0) -> Profile:
        return cls((origin,), (bytes_per_s,))

    def rate_at(self, time: float) -> float:
        """Rate at `time`; before the origin the first rate holds."""
        return self.rates[max(bisect_right(self.times, time) - 1, 0)]
