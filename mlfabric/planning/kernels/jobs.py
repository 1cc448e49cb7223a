"""Updates that wait, as numbers, and the streams that would bring them somewhere."""

from __future__ import annotations

from typing import NamedTuple

from mlfabric.compiled import inner
from mlfabric.planning.kernels.paths import Floats, Ints, Net, Scratch, route, stream, take


class Jobs(NamedTuple):
    """Updates that wait, one entry each: host row, seconds, bytes, commits that may come before."""

    host: Ints
    ready: Floats
    n_bytes: Floats
    slack: Ints


@inner
def leg(
    net: Net, s: Scratch, jobs: Jobs, job: int, dst: int, begin: float
) -> tuple[int, int, float]:
    """The stream that would bring a job to `dst`: links of its path, pieces, end."""
    m = route(net, jobs.host[job], dst, s.rows)
    k, end = stream(net, s, m, max(jobs.ready[job], begin), jobs.n_bytes[job])
    return m, k, end


@inner
def send(net: Net, s: Scratch, jobs: Jobs, job: int, dst: int, now: float) -> tuple[bool, float]:
    """Reserve a job's way to `dst`: whether there was room, and its end."""
    m, k, end = leg(net, s, jobs, job, dst, now)
    return take(net, s, m, k), end


class Sites(NamedTuple):
    """Where sums may be made, and how: aggregators' host rows, in the order they are tried.

    `model_bytes` bounds a sum (negative: as large as its largest member); until `busy_until` the
    server is taken by earlier groups.
    """

    server: int
    aggregators: Ints
    best_fit: bool
    reuse: bool
    model_bytes: float
    busy_until: float
    now: float
