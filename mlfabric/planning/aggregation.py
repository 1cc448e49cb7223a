"""Which updates go straight to the server and which are summed on the way [paper, Fig. 6]."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from mlfabric.events import Update
from mlfabric.planning.batch import Batch
from mlfabric.planning.grouping import Shape, direct, summed
from mlfabric.planning.kernels import aggregation
from mlfabric.planning.ordering import jobs_of

AggregatorChoice = Literal["in_order", "random", "best_fit"]


def choose_aggregators(
    idle: Sequence[str],
    choice: AggregatorChoice,
    rng: random.Random,
    workers: Collection[str] = (),
    count: int | None = None,
) -> tuple[str, ...]:
    """Idle hosts in the order in which groups try them: as given, or shuffled [paper].

    At most `count` of them (None: all), `workers` first: whose update is to be summed [ours].
    """
    hosts = list(idle)
    if count is not None and len(hosts) > count:
        own = [host for host in hosts if host in workers]
        others = [host for host in hosts if host not in workers]
        if choice == "random":
            others = rng.sample(others, min(max(count - len(own), 0), len(others)))
        hosts = [*own, *others][:count]
    if choice == "random":
        rng.shuffle(hosts)
    return tuple(hosts)


def paper_groups(batch: Batch, updates: tuple[Update, ...]) -> list[list[Shape]]:
    """Try every number of direct updates and keep the smallest mean completion time.

    `updates` are in commit order. While a group arrives, the next updates are collected and summed
    at an aggregator, for as long as that ends no later; what none can collect is sent straight.
    With equal means all are sent straight, so aggregation is never worse than that.
    """
    sites = batch.sites()
    jobs = jobs_of(batch, updates)
    via, opens = batch.residual.work_out(lambda net: aggregation.group(net, jobs, sites))
    hosts = batch.residual.network.hosts
    starts = [*np.flatnonzero(opens).tolist(), len(updates)]
    server = batch.server
    return [[_shape(updates[a:b], hosts, int(via[a]), server) for a, b in pairwise(starts)]]


def _shape(members: Sequence[Update], hosts: Sequence[str], via: int, server: str) -> Shape:
    return direct(members[0], server) if via < 0 else summed(members, hosts[via], server)
