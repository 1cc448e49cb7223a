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


class _Work(NamedTuple):
    """Everything that forming groups works on and with."""

    net: Net
    s: Scratch
    undo: Undo
    jobs: Jobs
    sites: Sites
    may_sum: Bools
    trees: Trees
    group: _Open


@inner
def _book_between(w: _Work, src: int, dst: int, ready: float, n_bytes: float) -> bool:
    m = route(w.net, src, dst, w.s.rows)
    return book(w.net, w.s, m, stream(w.net, w.s, m, ready, n_bytes)[0], w.undo)


@inner
def _add_node(w: _Work, host: int, parent: int, depth: int) -> int:
    """Returns its place among the nodes."""
    place = w.trees.size[0]
    w.trees.node[place], w.trees.parent[place] = host, parent
    w.trees.owner[place], w.trees.depth[place] = w.group.at[JOB], depth
    w.trees.size[0] = place + 1
    w.group.inside[host] = True
    return int(place)


@inner
def _sum_with(w: _Work, job: int) -> float:
    """Bytes of the group's sum with one job more."""
    largest = max(w.group.of[LARGEST], w.jobs.n_bytes[job])
    return float(min(w.group.of[TOTAL] + w.jobs.n_bytes[job], max(largest, w.sites.model_bytes)))


@inner
def _best_node(w: _Work, src: int, ready: float, n_bytes: float) -> tuple[int, float]:
    """The node over which something reaches the root first, and when."""
    best, best_end = int(np.int64(-1)), np.inf
    for place in range(w.group.at[NODE], w.trees.size[0]):
        m = route(w.net, src, w.trees.node[place], w.s.rows)
        end = stream(w.net, w.s, m, ready, n_bytes)[1] + w.group.of[LAG] * w.trees.depth[place]
        if best < 0 or end < best_end - tolerance(best_end - ready, ready, 1):
            best, best_end = place, end
    return best, best_end


@inner
def _nearest(w: _Work, job: int) -> int:
    """The aggregator outside the tree that a job would reach first; -1: there is none."""
    best, best_end = int(np.int64(-1)), np.inf
    for host in w.sites.aggregators:
        if not w.group.inside[host]:
            end = leg(w.net, w.s, w.jobs, job, host, w.sites.now)[2]
            if end < best_end:
                best, best_end = host, end
    return best


@inner
def _entry(w: _Work, job: int) -> tuple[float, int, int]:
    """How a job would join: when it is at the root, under which node (-1: a root is needed), and
    which host becomes a node for it (-1: none has to)."""
    host, first = w.jobs.host[job], w.group.at[JOB]
    none = int(np.int64(-1))
    if w.trees.size[0] == w.group.at[NODE]:  # the first member is on its way alone
        root = host if w.may_sum[host] else _nearest(w, job)
        if root < 0:
            return np.inf, none, none
        end = leg(w.net, w.s, w.jobs, job, root, w.sites.now)[2]
        end = max(end, leg(w.net, w.s, w.jobs, first, root, w.sites.now)[2])
        return end + w.group.of[LAG], none, root
    ready, n_bytes = max(w.jobs.ready[job], w.sites.now), w.jobs.n_bytes[job]
    under, end = _best_node(w, host, ready, n_bytes)
    if end <= w.group.of[END] + tolerance(end - ready, ready, 1):
        return end, under, none
    extra = _nearest(w, job)
    if extra < 0:
        return end, under, none
    total = _sum_with(w, job)
    over, later = _best_node(w, extra, ready, total)
    later = max(later, leg(w.net, w.s, w.jobs, job, extra, w.sites.now)[2] + w.group.of[LAG])
    earlier = later < end - tolerance(end - ready, ready, 1)
    return (later, over, extra) if earlier else (end, under, none)


@inner
def _enter(w: _Work, job: int, under: int, extra: int) -> bool:
    """Reserve what joining takes; whether there was room."""
    host, first = w.jobs.host[job], w.group.at[JOB]
    ready, total = max(w.jobs.ready[job], w.sites.now), _sum_with(w, job)
    if under < 0:
        rewind(w.net, w.undo, w.group.at[MARK])
        under = _add_node(w, extra, w.sites.server, int(np.int64(1)))
        w.trees.to[first] = extra
        done = _book_between(w, extra, w.sites.server, ready, total)
        m, k, _ = leg(w.net, w.s, w.jobs, first, extra, w.sites.now)
        done &= book(w.net, w.s, m, k, w.undo)
    else:
        root, grown = w.trees.node[w.group.at[NODE]], total - w.group.of[SUM]
        done = _book_between(w, root, w.sites.server, w.group.of[END], grown)
        if extra >= 0:
            parent = w.trees.node[under]
            under = _add_node(w, extra, parent, w.trees.depth[under] + 1)
            done &= _book_between(w, extra, parent, ready, total)
    target = w.trees.node[under]
    m, k, _ = leg(w.net, w.s, w.jobs, job, target, w.sites.now)
    done &= book(w.net, w.s, m, k, w.undo)
    if w.may_sum[host] and not w.group.inside[host]:
        _add_node(w, host, target, w.trees.depth[under] + 1)
        target = host
    w.trees.to[job], w.trees.opens[job] = target, False
    w.group.of[SUM] = total
    w.group.of[TOTAL] += w.jobs.n_bytes[job]
    w.group.of[LARGEST] = max(w.group.of[LARGEST], w.jobs.n_bytes[job])
    return done


@inner
def _open(w: _Work, job: int, chunk_bytes: float) -> bool:
    """A group of one, sent straight to the server; whether there was room."""
    host = w.jobs.host[job]
    m, k, end = leg(w.net, w.s, w.jobs, job, w.sites.server, w.sites.now)
    w.group.at[JOB], w.group.at[NODE], w.group.at[MARK] = job, w.trees.size[0], w.undo.top[0]
    w.group.of[END] = end
    w.group.of[SUM] = w.group.of[TOTAL] = w.group.of[LARGEST] = w.jobs.n_bytes[job]
    took = end - max(w.jobs.ready[job], w.sites.now)
    w.group.of[LAG] = took * min(chunk_bytes / w.jobs.n_bytes[job], 1.0)
    w.group.inside[:] = False
    w.trees.opens[job], w.trees.to[job] = True, w.sites.server
    if w.may_sum[host]:
        _add_node(w, host, w.sites.server, int(np.int64(1)))
        w.trees.to[job] = host
    return book(w.net, w.s, m, k, w.undo)


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
    undo = new_undo(64 + 12 * n, (64 + 12 * n) * net.times.shape[1])
    group = _Open(np.zeros(3, np.int64), np.zeros(5), np.zeros(hosts, np.bool_))
    w = _Work(net, new_scratch(net), undo, jobs, sites, may_sum, found, group)
    for job in range(n):
        done = joined = False
        if job:
            there, under, extra = _entry(w, job)
            end = group.of[END]
            grown = _sum_with(w, job) - group.of[SUM]
            after = max(there, soonest(net, w.s, sites.server, end, grown))
            gain = leg(net, w.s, jobs, job, sites.server, sites.now)[2] - after
            members, tie = job - group.at[JOB], tolerance(end - sites.now, sites.now, 1)
            cost = members * (after - end)
            fair = cost <= patience * gain + (members + patience) * tie
            joined = after <= end + tie or (gain > tie and fair)
        if joined:
            done = _enter(w, job, under, extra)
            group.of[END] = after
        else:
            done = _open(w, job, chunk_bytes)
        if not done:
            return False, found
    return True, found
