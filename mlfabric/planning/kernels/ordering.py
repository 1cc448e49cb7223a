"""Shortest transfer first: the inner loops."""

from __future__ import annotations

import numpy as np

from mlfabric.compiled import compiled, inner
from mlfabric.planning.kernels.jobs import Jobs, leg, send
from mlfabric.planning.kernels.paths import (
    Bools,
    Floats,
    Ints,
    Net,
    Scratch,
    copy_net,
    new_scratch,
    soonest,
    tolerance,
)


@inner
def _shortest(
    net: Net, s: Scratch, jobs: Jobs, dst: int, left: Ints, size: int, known: Floats, now: float
) -> int:
    """The place in `left` of the job that would arrive first; ties: the earlier one.

    `left` stands in order of size: once what the receiver's own link allows is too late, it is for
    all larger ones. `known` holds each job's end as last computed; reserving never makes it
    earlier, so a job whose known end is late enough need not be looked at.
    """
    best, best_end, tie = 0, np.inf, 0.0
    checked, earliest = -1.0, now
    for place in range(size):
        job = left[place]
        if place and known[job] > best_end + tie:
            continue
        if jobs.n_bytes[job] != checked:
            checked = jobs.n_bytes[job]
            earliest = soonest(net, s, dst, now, checked)
        if place and earliest > best_end + tie:
            break
        if place and earliest >= best_end - tie and job > left[best]:
            continue  # at best a tie, which the earlier one wins
        known[job] = leg(net, s, jobs, job, dst, now)[2]
        tied = known[job] <= best_end + tie and job < left[best]
        if known[job] < best_end - tie or tied:
            best, best_end, tie = place, known[job], tolerance(known[job] - now, now, 1)
    return best


@inner
def _pop(left: Ints, size: int, place: int) -> int:
    job = left[place]
    for i in range(place + 1, size):
        left[i - 1] = left[i]
    return int(job)


@inner
def _finish_plainly(
    net: Net,
    jobs: Jobs,
    server: int,
    left: Ints,
    size: int,
    known: Floats,
    position: int,
    clock: float,
    now: float,
    first: int,
    alone: Floats,
) -> float:
    """Σ of the seconds until all of `left` are committed, `first` first and then the shortest.

    What is dropped counts as sent alone after the batch: its worker has to start again. Negative
    if there was no room.
    """
    net, left, known = copy_net(net), left.copy(), known.copy()
    s = new_scratch(net)
    total, lost = 0.0, 0
    place = first
    while size:
        job = _pop(left, size, place)
        size -= 1
        if position > jobs.slack[job]:
            lost += 1
            total += alone[job] - now
        else:
            done, end = send(net, s, jobs, job, server, now)
            if not done:
                return -1.0
            clock = max(clock, end)
            total += clock - now
            position += 1
        if size:
            place = _shortest(net, s, jobs, server, left, size, known, now)
    return total + lost * (clock - now)


@inner
def _urgent(
    net: Net,
    s: Scratch,
    jobs: Jobs,
    server: int,
    left: Ints,
    size: int,
    position: int,
    now: float,
) -> int:
    """The shortest of those that leave no place to others if all that can be kept are kept.

    If as many updates must be among the next places as there are such places, one of them has to
    go now. Returns its place in `left`, -1 if there is no such haste.
    """
    within = np.zeros(size, np.int64)  # how many must be among the next place, the next two, …
    for place in range(size):
        more = jobs.slack[left[place]] - position
        if 0 <= more < size:
            within[more] += 1
    in_haste, latest = 0, -1
    for more in range(size):
        in_haste += within[more]
        if in_haste > more:
            latest = position + more
            break
    best, best_end = -1, np.inf
    for place in range(size):
        if position <= jobs.slack[left[place]] <= latest:
            end = leg(net, s, jobs, left[place], server, now)[2]
            if best < 0 or end < best_end:
                best, best_end = place, end
    return best


@compiled
def order(
    net: Net, jobs: Jobs, by_size: Ints, server: int, now: float, delay_aware: bool
) -> tuple[bool, Ints, Bools]:
    """Reserve jobs on `net`, shortest first; whether there was room, their order, which are kept.

    `by_size` holds the jobs, the smallest first.
    """
    n = len(jobs.host)
    s = new_scratch(net)
    left, known = by_size.copy(), np.full(n, -np.inf)
    sequence, kept = np.empty(n, np.int64), np.zeros(n, np.bool_)
    alone = np.empty(n)
    for job in range(n):
        alone[job] = leg(net, s, jobs, job, server, now)[2]
    position, clock = int(np.int64(0)), now
    for turn in range(n):
        size = n - turn
        place = _shortest(net, s, jobs, server, left, size, known, now)
        other = -1
        if delay_aware:
            other = _urgent(net, s, jobs, server, left, size, position, now)
        if other >= 0 and jobs.slack[left[place]] > jobs.slack[left[other]]:
            totals = np.empty(2)
            for i in range(2):
                first = other if i else place
                totals[i] = _finish_plainly(
                    net, jobs, server, left, size, known, position, clock, now, first, alone
                )
            if totals[0] < 0 or totals[1] < 0:
                return False, sequence, kept
            if totals[1] < totals[0] - tolerance(totals[0], now, size):
                place = other
        job = _pop(left, size, place)
        sequence[turn] = job
        if position <= jobs.slack[job]:
            done, end = send(net, s, jobs, job, server, now)
            if not done:
                return False, sequence, kept
            kept[job] = True
            position += 1
            clock = max(clock, end)
    return True, sequence, kept
