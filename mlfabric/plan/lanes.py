"""What a chart of a plan shows: the share of every link that each transfer uses over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlfabric.planning.profile import Profile
from mlfabric.topology import BIG_SWITCH, Link, Topology

Times = NDArray[np.float64]
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Bar:
    """The part of a link that one transfer takes: `share` of its rate, stacked on `bottom`.

    Both hold between neighbors of `edges_s` and are NaN where the transfer rests.
    """

    updates: tuple[str, ...]
    edges_s: Times
    bottom: Times
    share: Times

    def widest(self) -> tuple[float, float, float, float]:
        """Start, end, bottom and top of the largest rectangle, in seconds and shares."""
        area = np.nan_to_num(np.diff(self.edges_s) * self.share)
        at = int(np.argmax(area))
        low = float(self.bottom[at])
        return float(self.edges_s[at]), float(self.edges_s[at + 1]), low, low + self.share[at]


@dataclass(frozen=True)
class Lane:
    """One link and what crosses it."""

    link: Link
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Commit:
    """`updates` are applied at `at_s`, as version `version`; all of them had arrived by then."""

    updates: tuple[str, ...]
    arrived_s: float
    at_s: float
    version: int


def lanes(problem: Json, answer: Json) -> list[Lane]:
    """Every link that is used: the server's ingress, the replica's, then those of each host."""
    topology = _topology(problem)
    crossing: dict[Link, list[Json]] = {Link(problem["server"], "ingress"): []}
    if answer.get("replica"):
        crossing[Link(problem["replica"]["host"], "ingress")] = []
    first = list(crossing)
    for transfer in [*answer["transfers"], *_replica_transfers(answer)]:
        for link in topology.path(transfer["src"], transfer["dst"]):
            crossing.setdefault(link, []).append(transfer)
    nodes = [*problem["links"], *(problem.get("racks") or {})]
    ways = ("ingress", "egress", "up", "down")
    rest = sorted(
        (link for link in crossing if link not in first),
        key=lambda link: (nodes.index(link.host), ways.index(link.direction)),
    )
    return [Lane(link, _stacked(_capacity(problem, link), crossing[link])) for link in first + rest]


def commits(answer: Json, version: int) -> list[Commit]:
    """The server's commits in their order."""
    return _commits(answer["groups"], answer["transfers"], version)


def replica_commits(answer: Json, version: int) -> list[Commit]:
    """The replica's commits in their order; none without a replica."""
    groups = (answer.get("replica") or {}).get("groups", [])
    return _commits(groups, _replica_transfers(answer), version)


def end_s(problem: Json, answer: Json) -> float:
    """When the last transfer has ended and the last group is applied."""
    ends = [commit.at_s for commit in [*commits(answer, 0), *replica_commits(answer, 0)]]
    for transfer in [*answer["transfers"], *_replica_transfers(answer)]:
        ends += [end for _, end, _ in transfer["pieces"][-1:]]
    return max(ends, default=problem.get("now", 0.0))


def _commits(groups: Sequence[Json], transfers: Sequence[Json], version: int) -> list[Commit]:
    arrived_s: dict[str, float] = {}
    for transfer in transfers:
        for name in updates_of(transfer):  # collected first, then in a sum: the last one counts
            ends = [end for _, end, _ in transfer["pieces"][-1:]]
            arrived_s[name] = max([arrived_s.get(name, -math.inf), *ends])
    result = []
    for group in groups:
        members = tuple(group["members"])
        version += len(members)
        commit_s = float(group["commit"])
        here_s = max(arrived_s.get(name, commit_s) for name in members)
        result.append(Commit(members, here_s, commit_s, version))
    return result


def updates_of(transfer: Json) -> tuple[str, ...]:
    """The updates that a transfer carries, alone or summed."""
    what = transfer["what"]
    return (what,) if isinstance(what, str) else tuple(what)


def _replica_transfers(answer: Json) -> list[Json]:
    groups = (answer.get("replica") or {}).get("groups", [])
    return [transfer for group in groups for transfer in group["transfers"]]


def _topology(problem: Json) -> Topology:
    racks = problem.get("racks") or {}
    if not racks:
        return BIG_SWITCH
    return Topology({host: rack for rack, content in racks.items() for host in content["hosts"]})


def _capacity(problem: Json, link: Link) -> Profile:
    owner = {**problem["links"], **(problem.get("racks") or {})}[link.host]
    times, rates = zip(*owner[link.direction], strict=True)
    return Profile(times, rates)


def _stacked(capacity: Profile, transfers: Sequence[Json]) -> tuple[Bar, ...]:
    """The bars of one link, each upon those that started before it."""
    transfers = sorted((t for t in transfers if t["pieces"]), key=lambda t: t["pieces"][0][0])
    pieces = [np.array(t["pieces"], dtype=float).reshape(-1, 3) for t in transfers]
    ends = [piece[:, :2].ravel() for piece in pieces]
    edges = np.unique(np.concatenate([*ends, np.array(capacity.times, dtype=float), [np.nan]]))
    edges = edges[~np.isnan(edges)]
    rates = np.array([capacity.rate_at(time) for time in edges[:-1]])
    top = np.zeros(len(rates))
    bars = []
    for transfer, piece in zip(transfers, pieces, strict=True):
        used = _rate_between(edges, piece)
        share = np.divide(used, rates, out=np.zeros_like(used), where=rates > 0)
        bars.append(_bar(updates_of(transfer), edges, top, share))
        top = top + share
    return tuple(bar for bar in bars if len(bar.share))


def _rate_between(edges: Times, pieces: Times) -> Times:
    """Bytes/s of one transfer between neighboring edges."""
    change = np.zeros(len(edges))
    np.add.at(change, np.searchsorted(edges, pieces[:, 0]), pieces[:, 2])
    np.add.at(change, np.searchsorted(edges, pieces[:, 1]), -pieces[:, 2])
    rate = np.cumsum(change)[:-1]
    return np.where(rate > 1e-9 * pieces[:, 2].max(initial=0.0), rate, 0.0)


def _bar(updates: tuple[str, ...], edges: Times, bottom: Times, share: Times) -> Bar:
    """Without the time before and after the transfer, and with equal neighbors merged."""
    moving = np.flatnonzero(share)
    if not len(moving):
        return Bar(updates, edges[:0], bottom[:0], share[:0])
    span = slice(moving[0], moving[-1] + 1)
    bottom, share = (np.where(share > 0, values, np.nan)[span] for values in (bottom, share))
    changed = ~np.isclose(np.diff(bottom), 0.0, atol=1e-9, equal_nan=True)
    changed |= ~np.isclose(np.diff(share), 0.0, atol=1e-9, equal_nan=True)
    changed &= ~(np.isnan(share[1:]) & np.isnan(share[:-1]))
    starts = np.concatenate([[True], changed])
    kept = edges[moving[0] : moving[-1] + 2]
    return Bar(updates, np.append(kept[:-1][starts], kept[-1]), bottom[starts], share[starts])
