"""Shortest transfer first, with a bound on delay and drops before sending [paper, Fig. 5]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlfabric.events import Update
from mlfabric.planning.batch import Batch, Dropped
from mlfabric.planning.kernels import ordering
from mlfabric.planning.kernels.jobs import Jobs

_UNBOUNDED = 2**62


@dataclass(frozen=True)
class Ordering:
    """The updates kept, in commit order, and those dropped."""

    kept: tuple[Update, ...]
    dropped: tuple[Dropped, ...]


def order(batch: Batch) -> Ordering:
    """Order updates as if each were sent straight to the server.

    Again and again the remaining update with the smallest completion time (ties: input order) is
    appended, or dropped if, applied at this position, its delay would exceed the bound. With the
    rule `delay_aware` an update without slack goes first when that saves it and costs less than it
    gains: the sum of commit times is smaller, a dropped update counted as sent after the batch.
    """
    server = batch.residual.network.host_row[batch.server]
    jobs = jobs_of(batch, batch.updates)
    by_size = np.argsort(jobs.n_bytes, kind="stable")
    aware = batch.ordering == "delay_aware" and batch.delay_bound is not None
    sequence, kept = batch.residual.work_out(
        lambda net: ordering.order(net, jobs, by_size, server, batch.now, aware)
    )
    return _ordering(batch, sequence.tolist(), kept.tolist())


def _ordering(batch: Batch, sequence: list[int], kept: list[bool]) -> Ordering:
    taken: list[Update] = []
    dropped: list[Dropped] = []
    for index in sequence:
        update = batch.updates[index]
        if kept[index]:
            taken.append(update)
        else:
            dropped.append(Dropped(update, batch.version + len(taken) - update.version))
    return Ordering(tuple(taken), tuple(dropped))


def jobs_of(batch: Batch, updates: tuple[Update, ...]) -> Jobs:
    """Updates as the compiled loops take them."""
    row = batch.residual.network.host_row
    bound = batch.delay_bound
    slack = [_UNBOUNDED if bound is None else bound - (batch.version - u.version) for u in updates]
    return Jobs(
        np.array([row[update.worker] for update in updates], dtype=np.int64),
        np.array([batch.ready_s(update) for update in updates], dtype=np.float64),
        np.array([update.bytes for update in updates], dtype=np.float64),
        np.array(slack, dtype=np.int64),
    )
