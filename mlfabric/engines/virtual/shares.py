"""How well each transfer does where it shares links, as TCP's connections differ."""

from __future__ import annotations

import math
from collections import defaultdict
from hashlib import blake2b
from statistics import NormalDist

LEAST, MOST = 1e-3, 1e3
"""Weights stay within these."""

_normal_quantile = NormalDist().inv_cdf


class Shares:
    """Weights, lognormal with a standard deviation of the logarithm of `spread` [ours].

    A weight is a function of the seed, the two hosts, and how many transfers there were from the
    one to the other before: runs of equal seed have them in common, whatever their policies.
    """

    def __init__(self, seed: int, spread: float) -> None:
        self._seed = seed
        self._spread = spread
        self._count: defaultdict[tuple[str, str], int] = defaultdict(int)

    def next(self, src: str, dst: str) -> float:
        """The weight of the next transfer from `src` to `dst`."""
        if self._spread == 0:
            return 1.0
        number = self._count[src, dst]
        self._count[src, dst] = number + 1
        weight = math.exp(self._spread * _standard_normal(f"{self._seed} {src} {dst} {number}"))
        return min(max(weight, LEAST), MOST)


def _standard_normal(key: str) -> float:
    bits = int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big") >> 12
    return _normal_quantile((bits + 0.5) / 2.0**52)
