"""A lower bound on what a choice of first hops can come to: the server's link alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlfabric.planning.exact.slots import Slots
from mlfabric.topology import Link


class _Job(NamedTuple):
    """Bytes for the server, from slot `release` on; `weight` updates wait for them.

    `alone` is when they are there if nothing else is sent.
    """

    release: int
    n_bytes: float
    weight: int
    alone: int


class Relaxation:
    """A choice of first hops where each update has left, or each sum is collected, alone."""

    def __init__(self, slots: Slots, hops: Sequence[str]) -> None:
        self._room = slots.capacity[Link(slots.batch.server, "ingress")]
        self._jobs = _jobs(slots, hops)

    def least_total(self) -> int:
        """No plan with these first hops has a smaller sum of completion times, in slots.

        The bound is that of mean busy times on one preemptive machine with release dates [Goemans].
        """
        jobs = [job for job in self._jobs if job.n_bytes]
        fastest = float(self._room.max())
        shared = sum(
            job.weight * (middle + job.n_bytes / fastest / 2)
            for job, middle in zip(jobs, _mean_busy(jobs, self._room), strict=True)
        )
        shared += sum(job.weight * job.alone for job in self._jobs if not job.n_bytes)
        alone = sum(job.weight * job.alone for job in self._jobs)
        return max(math.ceil(shared - 1e-6), alone)

    def horizon(self, total: int) -> int:
        """Slots after which no update completes in a plan with this sum of completion times."""
        slack = total - sum(job.weight * job.alone for job in self._jobs)
        return max(job.alone + slack // job.weight for job in self._jobs)


def _jobs(slots: Slots, hops: Sequence[str]) -> list[_Job]:
    batch = slots.batch
    jobs = [
        _Job(
            slots.ready(update),
            update.bytes if update.worker != batch.server else 0,
            1,
            slots.earliest(update),
        )
        for update, hop in zip(batch.updates, hops, strict=True)
        if hop == batch.server
    ]
    for host, members in slots.groups(hops).items():
        release, n_bytes = slots.collected(host, members), batch.sum_bytes(members)
        alone = slots.arrival(slots.room(host, batch.server), release, n_bytes)
        jobs.append(_Job(release, n_bytes, len(members), alone))
    return jobs


def _mean_busy(jobs: Sequence[_Job], room: NDArray[np.float64]) -> list[float]:
    """Mean time at which each job's bytes cross where the most urgent, by weight, always do."""
    left = [job.n_bytes for job in jobs]
    means = [0.0] * len(jobs)
    urgent = sorted(range(len(jobs)), key=lambda k: -jobs[k].weight / jobs[k].n_bytes)
    for t, free in enumerate(room):
        sent = 0.0
        for k in urgent:
            if jobs[k].release <= t and left[k] > 0 and sent < free:
                part = min(left[k], free - sent)
                means[k] += part * (t + (sent + part / 2) / free) / jobs[k].n_bytes
                left[k] -= part
                sent += part
    # What does not cross in time crosses after it at the earliest.
    return [
        mean + rest * len(room) / job.n_bytes
        for mean, rest, job in zip(means, left, jobs, strict=True)
    ]
