"""Max-min fair rates by progressive filling: the inner loop."""

from __future__ import annotations

import numpy as np

from mlfabric.compiled import compiled
from mlfabric.planning.kernels.paths import Floats, Ints


@compiled
def fill(rows: Ints, capacity: Floats) -> Floats:
    """Rates of flows whose links stand in `rows`, -1 where there is none."""
    rates, free = np.full(len(rows), np.inf), capacity.copy()
    crossing = np.zeros(len(capacity), np.int64)
    for crossed in rows.flat:
        if crossed >= 0:
            crossing[crossed] += 1
    while True:
        full, share = -1, np.inf
        for link in range(len(free)):
            if crossing[link] and free[link] / crossing[link] < share:
                full, share = link, free[link] / crossing[link]
        if full < 0:
            return rates
        for flow in range(len(rows)):
            if rates[flow] == np.inf and (rows[flow] == full).any():
                rates[flow] = max(share, 0.0)
                for crossed in rows[flow]:
                    if crossed >= 0:
                        free[crossed] -= rates[flow]
                        crossing[crossed] -= 1
