"""Sums forwarded chunk by chunk along trees of any depth [ours].

The paper's aggregator sends a sum once all members are there. Here it sends the sum of the first
chunks while later ones still come in, and its output may be another aggregator's input: the server
receives one stream a group, however many members it has, as fast as the slowest hop allows.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from mlfabric.events import Update
from mlfabric.planning.batch import Batch
from mlfabric.planning.grouping import Hop, Shape, direct
from mlfabric.planning.kernels import trees
from mlfabric.planning.kernels.trees import Trees
from mlfabric.planning.ordering import jobs_of


def pipelined_groups(batch: Batch, updates: tuple[Update, ...]) -> Iterator[list[Shape]]:
    """Groups of updates, given in commit order, with their trees; every answer once."""
    jobs, sites = jobs_of(batch, updates), batch.sites()
    chunk_bytes = float(batch.chunk_bytes)
    given: list[list[Shape]] = []
    for patience in batch.patiences:
        (found,) = batch.residual.work_out(
            functools.partial(
                trees.trees, jobs=jobs, sites=sites, chunk_bytes=chunk_bytes, patience=patience
            )
        )
        shapes = _shapes(batch, updates, found)
        if shapes not in given:
            given.append(shapes)
            yield shapes


def _shapes(batch: Batch, updates: tuple[Update, ...], found: Trees) -> list[Shape]:
    hosts = batch.residual.network.hosts
    starts = [*np.flatnonzero(found.opens).tolist(), len(updates)]
    over: dict[int, dict[str, str]] = defaultdict(dict)
    for at in range(int(found.size[0])):
        over[int(found.owner[at])][hosts[found.node[at]]] = hosts[found.parent[at]]
    return [
        _shape(batch, updates[a:b], [hosts[row] for row in found.to[a:b]], over[a])
        for a, b in pairwise(starts)
    ]


def _shape(
    batch: Batch, members: Sequence[Update], to: Sequence[str], over: Mapping[str, str]
) -> Shape:
    """The hops of one tree: members to their nodes, then nodes, deepest first, to their parents."""
    if len(members) == 1:
        return direct(members[0], batch.server)
    place = {update.id: index for index, update in enumerate(members)}
    at: dict[str, list[Update]] = defaultdict(list)
    hops = []
    for update, node in zip(members, to, strict=True):
        at[node].append(update)
        if node != update.worker:
            hops.append(Hop((update,), update.worker, node))
    for node in sorted(over, key=lambda host: -_depth(host, over)):
        if at[node]:
            carried = tuple(sorted(at[node], key=lambda update: place[update.id]))
            hops.append(Hop(carried, node, over[node]))
            at[over[node]] += carried
    return Shape(tuple(members), tuple(hops), chunked=True)


def _depth(host: str, over: Mapping[str, str]) -> int:
    depth = 0
    while host in over:
        host, depth = over[host], depth + 1
    return depth
