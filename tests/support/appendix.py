"""The paper's integer program [paper, appendix] in one piece, for instances that it can solve.

Slower than `mlfabric.planning.exact`, and shares none of its code.
"""

from __future__ import annotations

from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from mlfabric.planning.batch import Batch


def least_total(batch: Batch, slots: int) -> int:
    """Sum of the completion times, in slots of one second, of the best plan; rates are constant."""
    updates, stops = batch.updates, (batch.server, *batch.aggregators)
    number, rows = count(), []
    every = range(slots + 1)
    y = {(u, d): next(number) for u in updates for d in stops}
    f = {(u, d, t): next(number) for u in updates for d in stops for t in range(slots)}
    arrived = {(u, d, t): next(number) for u in updates for d in stops for t in every}
    g = {(a, t): next(number) for a in batch.aggregators for t in range(slots)}
    complete = {(a, t): next(number) for a in batch.aggregators for t in every}
    via = {(u, a, t): next(number) for u in updates for a in batch.aggregators for t in every}
    size = next(number)
    amounts = {*f.values(), *g.values()}

    def at_least(bound: float, *terms: tuple[float, int]) -> None:
        row = np.zeros(size)
        for factor, variable in terms:
            row[variable] += factor
        rows.append((row, bound))

    for u in updates:
        for sign in (1, -1):
            at_least(sign, *[(sign, y[u, d]) for d in stops])
        for d, t in ((d, t) for d in stops for t in every):
            at_least(0, (1, y[u, d]), (-1, arrived[u, d, t]))
            if t < batch.ready_s(u):
                at_least(0, (-1, arrived[u, d, t]))
            if u.worker != d:
                sent = [(1.0, f[u, d, s]) for s in range(t)]
                at_least(0, *sent, (-u.bytes, arrived[u, d, t]))
            if t < slots:
                started = u.bytes if t >= batch.ready_s(u) and u.worker != d else 0
                at_least(0, (started, y[u, d]), (-1, f[u, d, t]))
    for a, t in complete:
        for u in updates:
            at_least(-1, (-1, complete[a, t]), (1, arrived[u, a, t]), (-1, y[u, a]))
            at_least(0, (1, y[u, a]), (-1, via[u, a, t]))
            # What is committed is as large as the largest member, and brings all along.
            for other in updates:
                sent = [(1.0, g[a, s]) for s in range(t)]
                at_least(
                    -other.bytes, *sent, (-other.bytes, via[u, a, t]), (-other.bytes, y[other, a])
                )
    total = sum(u.bytes for u in updates)
    for a, t in g:
        at_least(0, (total, complete[a, t]), (-1, g[a, t]))
    topology = batch.residual.network.topology
    paths = {key: topology.path(key[0].worker, key[1]) for key in f}
    paths |= {key: topology.path(key[0], batch.server) for key in g}
    for link, profile in batch.residual.profiles().items():
        for t in range(slots):
            crossing = [
                (-1.0, {**f, **g}[key])
                for key, path in paths.items()
                if link in path and key[-1] == t
            ]
            at_least(-profile.rate_at(t), *crossing)
    committed = [arrived[u, batch.server, t] for u in updates for t in range(slots)]
    committed += [via[u, a, t] for u in updates for a in batch.aggregators for t in range(slots)]
    return len(updates) * slots - _most_passed(rows, committed, amounts, size)


def _most_passed(
    rows: list[tuple[NDArray[np.float64], float]],
    committed: list[int],
    amounts: set[int],
    size: int,
) -> int:
    """The largest number of `committed` that are 1, by HiGHS; all but `amounts` are binary."""
    cost = np.zeros(size)
    cost[committed] = -1
    found = milp(
        cost,
        integrality=[variable not in amounts for variable in range(size)],
        bounds=Bounds(0, [np.inf if variable in amounts else 1 for variable in range(size)]),
        constraints=LinearConstraint(np.array([r for r, _ in rows]), [b for _, b in rows], np.inf),
        options={"mip_rel_gap": 0.0},
    )
    return -round(found.fun)
