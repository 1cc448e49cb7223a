"""The paper's aggregation: every number of direct updates tried; the inner loops."""

from __future__ import annotations

import numpy as np

from mlfabric.compiled import compiled, inner
from mlfabric.planning.kernels.jobs import Jobs, Sites, leg, send
from mlfabric.planning.kernels.paths import (
    Bools,
    Floats,
    Ints,
    Net,
    Scratch,
    copy_net,
    new_scratch,
    route,
    soonest,
    stream,
    tolerance,
)
from mlfabric.planning.kernels.undo import Undo, book, new_undo, rewind


@inner
def _collect(
    net: Net,
    s: Scratch,
    undo: Undo,
    jobs: Jobs,
    first: int,
    host: int,
    begin: float,
    deadline: float,
) -> tuple[bool, int, float]:
    """Reserve the way to `host` for jobs from `first` on, in order, while they arrive in time.

    Returns whether there was room, how many were taken and when the last arrives.
    """
    count, last, tie = 0, begin, tolerance(deadline - begin, deadline, 1)
    for job in range(first, len(jobs.host)):
        m, k, end = leg(net, s, jobs, job, host, begin)
        if end > deadline + tie:
            break
        if not book(net, s, m, k, undo):
            return False, count, last
        count, last = count + 1, max(last, end)
    return True, count, last


@inner
def _gather(
    net: Net,
    s: Scratch,
    undo: Undo,
    jobs: Jobs,
    sites: Sites,
    free: Floats,
    used: Ints,
    first: int,
    deadline: float,
) -> tuple[bool, int, int, float]:
    """Reserve the collecting of the next group at an aggregator; fewer than two: no group.

    Those not used yet come first; with `best_fit` the one that takes most, then ends first.
    Returns whether there was room, which aggregator (-1: none), how many jobs, and their last end.
    """
    mark = undo.top[0]
    best, most, earliest = -1, 1, np.inf
    for again in range(2 if sites.reuse else 1):
        for a in range(len(free)):
            if used[a] != again or free[a] >= deadline:
                continue
            host = sites.aggregators[a]
            done, count, last = _collect(net, s, undo, jobs, first, host, free[a], deadline)
            if not done or (count > 1 and not sites.best_fit):
                return done, a, count, last
            rewind(net, undo, mark)
            if count > most or (count == most and best >= 0 and last < earliest):
                best, most, earliest = a, count, last
    if best < 0:
        return True, -1, 0, deadline
    host = sites.aggregators[best]
    done, count, last = _collect(net, s, undo, jobs, first, host, free[best], deadline)
    return done, best, count, last


@inner
def _sum_bytes(jobs: Jobs, first: int, count: int, model_bytes: float) -> float:
    largest, total = 0.0, 0.0
    for job in range(first, first + count):
        largest = max(largest, jobs.n_bytes[job])
        total += jobs.n_bytes[job]
    return min(total, max(largest, model_bytes))


@inner
def _plan_from(
    net: Net,
    s: Scratch,
    undo: Undo,
    jobs: Jobs,
    sites: Sites,
    smallest: Floats,
    k: int,
    arrival: float,
    total: float,
    best: float,
    via: Ints,
    opens: Bools,
) -> tuple[bool, float]:
    """Groups of the jobs from k on, in `via` and `opens`; returns the total, inf if not below best.

    A total is the sum of seconds until jobs arrive. Those before k are reserved already, theirs is
    `total`, the last of them is there at `arrival`.
    """
    n, job = len(jobs.host), k
    free = np.full(len(sites.aggregators), sites.now)
    used = np.zeros(len(sites.aggregators), np.int64)
    while job < n:
        earliest = soonest(net, s, sites.server, sites.now, smallest[job])
        if total + (n - job) * (earliest - sites.now) >= best:
            return True, np.inf
        done, a, count, last = _gather(net, s, undo, jobs, sites, free, used, job, arrival)
        if not done:
            return False, np.inf
        if a < 0 and job == k:
            return True, np.inf  # k + 1 comes to the same
        if a < 0:
            m, pieces, end = leg(net, s, jobs, job, sites.server, sites.now)
            count, host = 1, -1
        else:
            host = sites.aggregators[a]
            m = route(net, host, sites.server, s.rows)
            n_bytes = _sum_bytes(jobs, job, count, sites.model_bytes)
            pieces, end = stream(net, s, m, last, n_bytes)
            free[a], used[a] = end, 1
        if not book(net, s, m, pieces, undo):
            return False, np.inf
        for i in range(count):
            via[job + i], opens[job + i] = host, i == 0
        total += count * (end - sites.now)
        arrival, job = max(arrival, end), job + count
    return True, total


@compiled
def group(net: Net, jobs: Jobs, sites: Sites) -> tuple[bool, Ints, Bools]:
    """Try every number of jobs sent straight to the server before the first sum [paper].

    Jobs are in commit order. Returns whether there was room, the host that sums each job (-1:
    none) and which jobs open a group. Without a gain, all are sent straight.
    """
    n = len(jobs.host)
    s, undo = new_scratch(net), new_undo(64 + 12 * n, (64 + 12 * n) * net.times.shape[1])
    direct, never = copy_net(net), np.inf
    best, arrival = 0.0, np.zeros(n)
    for job in range(n):
        done, arrival[job] = send(direct, s, jobs, job, sites.server, sites.now)
        best += arrival[job] - sites.now
        if not done:
            return False, jobs.host, np.ones(n, np.bool_)
    smallest = np.full(n + 1, never)
    for job in range(n - 1, -1, -1):
        smallest[job] = min(smallest[job + 1], jobs.n_bytes[job])
    best_via, best_opens = np.full(n, -1), np.ones(n, np.bool_)
    via, opens = best_via.copy(), best_opens.copy()
    total, last = 0.0, sites.busy_until
    for k in range(n):
        limit = best - tolerance(best, sites.now, n)
        earliest = soonest(net, s, sites.server, sites.now, smallest[k])
        if total + (n - k) * (earliest - sites.now) >= limit:
            break  # no larger k does better either
        done, found = _plan_from(
            net, s, undo, jobs, sites, smallest, k, last, total, limit, via, opens
        )
        rewind(net, undo, int(np.int64(0)))
        if not done:
            return False, via, opens
        if found < limit:
            best, best_via, best_opens = found, via.copy(), opens.copy()
        if not send(net, s, jobs, k, sites.server, sites.now)[0]:
            return False, via, opens
        total += arrival[k] - sites.now
        last = max(last, arrival[k])
        via[k], opens[k] = -1, True
    return True, best_via, best_opens
