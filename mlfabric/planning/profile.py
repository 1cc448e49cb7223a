"""Residual bandwidth of a link as a piecewise-constant function of time [paper, Fig. 4]."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
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

    def pieces(self, start: float, n_bytes: float) -> tuple[Piece, ...]:
        """How a transfer of `n_bytes`, ready at `start`, uses this profile to the full.

        Stretches without bandwidth are left out. Empty for zero bytes; the last piece ends at
        infinity when the bytes never get through.
        """
        found: list[Piece] = []
        left = n_bytes
        index = max(bisect_right(self.times, start) - 1, 0)
        while left > 0:
            begin = max(start, self.times[index])
            rate = self.rates[index]
            last = index + 1 == len(self.times)
            end = math.inf if last else self.times[index + 1]
            if rate > 0:
                done = begin + left / rate
                if done <= end:
                    found.append(Piece(begin, done, rate))
                    break
                found.append(Piece(begin, end, rate))
                left -= (end - begin) * rate
            elif last:
                found.append(Piece(begin, math.inf, 0.0))
                break
            index += 1
        return tuple(found)

    def finish(self, start: float, n_bytes: float) -> float:
        """First time at which the integral from `start` reaches `n_bytes`; inf if never."""
        pieces = self.pieces(start, n_bytes)
        return pieces[-1].end if pieces else start

    def first_time_at(self, bytes_per_s: float, start: float) -> float:
        """First time from `start` on at which the rate is at least `bytes_per_s`; inf if never."""
        if self.rate_at(start) >= bytes_per_s:
            return start
        later = zip(self.times, self.rates, strict=True)
        return next((t for t, rate in later if t > start and rate >= bytes_per_s), math.inf)

    def minus(self, pieces: Iterable[Piece]) -> Profile:
        """What is left after the pieces are reserved; never below zero."""
        used = list(pieces)
        cuts = {t for p in used for t in (p.start, p.end) if self.times[0] < t < math.inf}
        times = sorted(cuts.union(self.times))
        rates = [self._left(t, used) for t in times]
        return _merged(times, rates)

    def _left(self, time: float, used: Sequence[Piece]) -> float:
        taken = sum(p.bytes_per_s for p in used if p.start <= time < p.end)
        left = self.rate_at(time) - taken
        return left if left > 1e-9 * self.rate_at(time) else 0.0


def lowest(profiles: Sequence[Profile]) -> Profile:
    """The minimum of one or more profiles at each time: the residual of a path."""
    if len(profiles) == 1:
        return profiles[0]
    times = sorted({t for p in profiles for t in p.times})
    return _merged(times, [min(p.rate_at(t) for p in profiles) for t in times])


def _merged(times: Sequence[float], rates: Sequence[float]) -> Profile:
    keep = [i for i in range(len(times)) if i == 0 or rates[i] != rates[i - 1]]
    return Profile(tuple(times[i] for i in keep), tuple(rates[i] for i in keep))
