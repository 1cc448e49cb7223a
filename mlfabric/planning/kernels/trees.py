"""Trees for pipelined aggregation: the inner loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlfabric.compiled import compiled, inner
from mlfabric.planning.kernels.jobs import Jobs, Sites, leg
from mlfabric.planning.kernels.paths import (
    Bools,
    Floats,
    Ints,
    Net,
    Scratch,
    new_scratch,
    route,
    soonest,
    stream,
    tolerance,
)
from mlfabric.planning.kernels.undo import Undo, book, new_undo, rewind


class Trees(NamedTuple):
    """Groups of jobs in commit order, each summed along a tree.

    `opens` tells which jobs open a group; `to` the host row that a job is sent to first, its own
    where that is a node of the tree. Nodes stand in `node` with `parent` (the row that a node's sum
    goes to), `owner` (the job that opened its group) and `depth`; the first `size` count.
    """

    opens: Bools
    to: Ints
    node: Ints
    parent: Ints
    owner: Ints
    depth: Ints
    size: Ints


JOB, NODE, MARK = range(3)
"""Entries of `_Open.at`: the job that opened the group, its first node, the undo mark before it."""

END, SUM, LAG, TOTAL, LARGEST = range(5)
"""Entries of `_Open.of`: when the group is complete as planned so far, bytes of its sum, seconds
that a hop adds, bytes of its members together and of the largest."""


class _Open(NamedTuple):
    """The group that may still take members, and the hosts that are its nodes."""

    at: Ints
    of: Floats
    inside: Bools


@inner
def _book_between(
    net: Net, s: Scratch, undo: Undo, src: int, dst: int, ready: float, n_bytes: float
) -> bool:
    m = route(net, src, dst, s.rows)
    return book(net, s, m, stream(net, s, m, ready, n_bytes)[0], undo)


@inner
def _add_node(trees: Trees, group: _Open, host: int, parent: int, depth: int) -> int:
    """Returns its place among the nodes."""
    place = trees.size[0]
    trees.node[place], trees.parent[place] = host, parent
    trees.owner[place], trees.depth[place] = group.at[JOB], depth
    trees.size[0] = place + 1
    group.inside[host] = True
    return int(place)


@inner
def _sum_with(jobs: Jobs, sites: Sites, group: _Open, job: int) -> float:
    """Bytes of the group's sum with one job more."""
    largest = max(group.of[LARGEST], jobs.n_bytes[job])
    return float(min(group.of[TOTAL] + jobs.n_bytes[job], max(largest, sites.model_bytes)))


@inner
def _best_node(
    net: Net, s: Scratch, trees: Trees, group: _Open, src: int, ready: float, n_bytes: float
) -> tuple[int, float]:
    """The node over which something reaches the root first, and when."""
    best, best_end = int(np.int64(-1)), np.inf
    for place in range(group.at[NODE], trees.size[0]):
        m = route(net, src, trees.node[place], s.rows)
        end = stream(net, s, m, ready, n_bytes)[1] + group.of[LAG] * trees.depth[place]
        if best < 0 or end < best_end - tolerance(best_end - ready, ready, 1):
            best, best_end = place, end
    return best, best_end


@inner
def _nearest(net: Net, s: Scratch, jobs: Jobs, sites: Sites, group: _Open, job: int) -> int:
    """The aggregator outside the tree that a job would reach first; -1: there is none."""
    best, best_end = int(np.int64(-1)), np.inf
    for host in sites.aggregators:
        if not group.inside[host]:
            end = leg(net, s, jobs, job, host, sites.now)[2]
            if end < best_end:
                best, best_end = host, end
    return best


@inner
def _entry(
    net: Net,
    s: Scratch,
    jobs: Jobs,
    sites: Sites,
    may_sum: Bools,
    trees: Trees,
    group: _Open,
    job: int,
) -> tuple[float, int, int]:
    """How a job would join: when it is at the root, under which node (-1: a root is needed), and
    which host becomes a node for it (-1: none has to)."""
    host, first = jobs.host[job], group.at[JOB]
    none = int(np.int64(-1))
    if trees.size[0] == group.at[NODE]:  # the first member is on its way alone
        root = host if may_sum[host] else _nearest(net, s, jobs, sites, group, job)
        if root < 0:
            return np.inf, none, none
        end = leg(net, s, jobs, job, root, sites.now)[2]
        end = max(end, leg(net, s, jobs, first, root, sites.now)[2])
        return end + group.of[LAG], none, root
    ready, n_bytes = max(jobs.ready[job], sites.now), jobs.n_bytes[job]
    under, end = _best_node(net, s, trees, group, host, ready, n_bytes)
    if end <= group.of[END]:
        return end, under, none
    extra = _nearest(net, s, jobs, sites, group, job)
    if extra < 0:
        return end, under, none
    total = _sum_with(jobs, sites, group, job)
    over, later = _best_node(net, s, trees, group, extra, ready, total)
    later = max(later, leg(net, s, jobs, job, extra, sites.now)[2] + group.of[LAG])
    return (later, over, extra) if later < end else (end, under, none)


@inner
def _enter(
    net: Net,
    s: Scratch,
    undo: Undo,
    jobs: Jobs,
    sites: Sites,
    may_sum: Bools,
    trees: Trees,
    group: _Open,
    job: int,
    under: int,
    extra: int,
) -> bool:
    """Reserve what joining takes; whether there was room."""
    host, first = jobs.host[job], group.at[JOB]
    ready, total = max(jobs.ready[job], sites.now), _sum_with(jobs, sites, group, job)
    if under < 0:
        rewind(net, undo, group.at[MARK])
        under = _add_node(trees, group, extra, sites.server, int(np.int64(1)))
        trees.to[first] = extra
        done = _book_between(net, s, undo, extra, sites.server, ready, total)
        m, k, _ = leg(net, s, jobs, first, extra, sites.now)
        done &= book(net, s, m, k, undo)
    else:
        root, grown = trees.node[group.at[NODE]], total - group.of[SUM]
        done = _book_between(net, s, undo, root, sites.server, group.of[END], grown)
        if extra >= 0:
            parent = trees.node[under]
            under = _add_node(trees, group, extra, parent, trees.depth[under] + 1)
            done &= _book_between(net, s, undo, extra, parent, ready, total)
    target = trees.node[under]
    m, k, _ = leg(net, s, jobs, job, target, sites.now)
    done &= book(net, s, m, k, undo)
    if may_sum[host] and not group.inside[host]:
        _add_node(trees, group, host, target, trees.depth[under] + 1)
        target = host
    trees.to[job], trees.opens[job] = target, False
    group.of[SUM] = total
    group.of[TOTAL] += jobs.n_bytes[job]
    group.of[LARGEST] = max(group.of[LARGEST], jobs.n_bytes[job])
    return done


@inner
def _open(
    net: Net,
    s: Scratch,
    undo: Undo,
    jobs: Jobs,
    sites: Sites,
    may_sum: Bools,
    chunk_bytes: float,
    trees: Trees,
    group: _Open,
    job: int,
) -> bool:
    """A group of one, sent straight to the server; whether there was room."""
    host = jobs.host[job]
    m, k, end = leg(net, s, jobs, job, sites.server, sites.now)
    group.at[JOB], group.at[NODE], group.at[MARK] = job, trees.size[0], undo.top[0]
    group.of[END] = end
    group.of[SUM] = group.of[TOTAL] = group.of[LARGEST] = jobs.n_bytes[job]
    took = end - max(jobs.ready[job], sites.now)
    group.of[LAG] = took * min(chunk_bytes / jobs.n_bytes[job], 1.0)
    group.inside[:] = False
    trees.opens[job], trees.to[job] = True, sites.server
    if may_sum[host]:
        _add_node(trees, group, host, sites.server, int(np.int64(1)))
        trees.to[job] = host
    return book(net, s, m, k, undo)


@compiled
def trees(
    net: Net, jobs: Jobs, sites: Sites, chunk_bytes: float, patience: float
) -> tuple[bool, Trees]:
    """Form groups job by job, in commit order; whether there was room, and the trees.

    A job joins the last group if that delays the others by no more, in sum, than `patience` times
    what it gains over opening a group of its own.
    """
    n, hosts = len(jobs.host), net.up.shape[0]
    may_sum = np.zeros(hosts, np.bool_)
    for host in sites.aggregators:
        may_sum[host] = True
    room = 2 * n + len(sites.aggregators)
    nodes = np.full((4, room), -1)
    found = Trees(
        np.ones(n, np.bool_),
        np.full(n, -1),
        nodes[0],
        nodes[1],
        nodes[2],
        nodes[3],
        np.zeros(1, np.int64),
    )
    s, undo = new_scratch(net), new_undo(64 + 12 * n, (64 + 12 * n) * net.times.shape[1])
    group = _Open(np.zeros(3, np.int64), np.zeros(5), np.zeros(hosts, np.bool_))
    for job in range(n):
        done = joined = False
        if job:
            there, under, extra = _entry(net, s, jobs, sites, may_sum, found, group, job)
            end = group.of[END]
            grown = _sum_with(jobs, sites, group, job) - group.of[SUM]
            after = max(there, soonest(net, s, sites.server, end, grown))
            gain = leg(net, s, jobs, job, sites.server, sites.now)[2] - after
            cost = (job - group.at[JOB]) * (after - end)
            joined = after <= end or (gain > 0 and cost <= patience * gain)
        if joined:
            done = _enter(net, s, undo, jobs, sites, may_sum, found, group, job, under, extra)
            group.of[END] = after
        else:
            done = _open(net, s, undo, jobs, sites, may_sum, chunk_bytes, found, group, job)
        if not done:
            return False, found
    return True, found
