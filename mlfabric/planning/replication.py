"""How a replica follows the server within a bound on their distance [paper, Fig. 3].

The distance between the two models is at most the sum of the norms of the updates that the server
has committed and the replica has not. The replica gets the server's groups in the same order, a run
of them at a time, from the workers and aggregators that hold them; these keep what they have sent
to the server until the replica has it too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlfabric.errors import SettingError
from mlfabric.events import Update
from mlfabric.planning.batch import Batch, Group, Plan, PlannedTransfer
from mlfabric.planning.grouping import Hop, Shape, realize_shape
from mlfabric.planning.kernels.paths import RESIDUE
from mlfabric.planning.residual import Residual
from mlfabric.planning.sharing import left_after


@dataclass(frozen=True)
class Replica:
    """A host that stays within `divergence_bound` of the server.

    `pending_norm` is the norm of what was committed before this batch and is still on its way to
    the replica; it counts for the whole batch.
    """

    host: str
    divergence_bound: float
    pending_norm: float = 0.0

    def __post_init__(self) -> None:
        if self.pending_norm > self.divergence_bound:
            raise SettingError(
                f"replica.pending_norm: {self.pending_norm}: "
                f"must be at most divergence_bound {self.divergence_bound}"
            )

    def allows(self, groups: Sequence[Group]) -> bool:
        """Whether all of these may be committed before the replica has any of them."""
        norms = (update.norm for group in groups for update in group.members)
        return math.fsum((self.pending_norm, *norms)) <= self.divergence_bound


@dataclass(frozen=True)
class ReplicaGroup:
    """Updates that the replica commits together: a run of one or more of the server's groups.

    `via` is the host that sums the run, None where the server's groups come one by one. The replica
    holds all of it at `arrival_s` and, never ahead of the server, commits it at `commit_s`.
    """

    members: tuple[Update, ...]
    via: str | None
    transfers: tuple[PlannedTransfer, ...]
    arrival_s: float
    commit_s: float
    version_before: int


@dataclass(frozen=True)
class Replicated:
    """The server's plan with what the replica needs in it, and the replica's own groups."""

    plan: Plan
    groups: tuple[ReplicaGroup, ...]
    max_divergence: float


def replicate(batch: Batch, plan: Plan, replica: Replica) -> Replicated:
    """Let a replica follow a plan for `batch` within its bound.

    Server groups stay in their order, and commit later where the replica has to catch up first: a
    run of groups is as long as the bound allows, and is reserved before the group that comes after
    it, which waits until the replica has the run. A group that is too large for the bound by itself
    is committed when the replica has it too. What comes before the first wait stays as planned.
    """
    follower = _Follower(batch, plan, replica)
    for run in _runs(plan.groups, replica):
        follower.follow(run)
    return follower.replicated()


def divergence(
    commits: Sequence[float], arrivals: Sequence[float], norms: Sequence[float], pending: float
) -> float:
    """Largest sum of norms of updates committed at the server and not yet at the replica.

    One entry an update: when the server commits it, when the replica does. Of two commits at one
    instant the replica's counts first. `pending` counts throughout.
    """
    spans = list(zip(commits, arrivals, norms, strict=True))
    return max(
        (
            math.fsum((pending, *(norm for begin, end, norm in spans if begin <= now < end)))
            for now in set(commits)
        ),
        default=pending,
    )


def _runs(groups: Sequence[Group], replica: Replica) -> Iterator[tuple[Group, ...]]:
    """Consecutive groups, as many at a time as the replica may lag behind; at least one."""
    run: tuple[Group, ...] = ()
    for group in groups:
        if run and not replica.allows((*run, group)):
            yield run
            run = ()
        run = (*run, group)
    if run:
        yield run


@dataclass(frozen=True)
class _Payload:
    """A server group's update or sum, and the host that sends it on, from `ready_s` on."""

    members: tuple[Update, ...]
    src: str
    ready_s: float


@dataclass(frozen=True)
class _Crossing:
    """One way to bring a run to the replica, and what the links have left after it."""

    via: str | None
    transfers: tuple[PlannedTransfer, ...]
    arrival_s: float
    residual: Residual


class _Follower:
    """Redoes a plan run by run, each run's transfers to the replica before the next run's."""

    def __init__(self, batch: Batch, plan: Plan, replica: Replica) -> None:
        self._batch = batch
        self._plan = plan
        self._replica = replica
        self._residual = batch.residual.copy()
        self._clock = -math.inf
        self._groups: list[Group] = []
        self._followed: list[ReplicaGroup] = []
        self._left_at: dict[str, float] = {}  # when the last sum has left an aggregator
        self._sums_to_come = Counter(s.src for g in plan.groups for s in _sums(g.transfers))

    def follow(self, run: Sequence[Group]) -> None:
        """Bring the next run of groups to the server, then to the replica."""
        at_server = [self._redone(group) for group in run] if self._groups else self._kept(run)
        crossing = self._cross([_payload(self._batch, group) for group in at_server])
        self._clock = max(at_server[-1].commit_s, crossing.arrival_s)
        if not self._replica.allows(at_server):
            at_server[-1] = replace(at_server[-1], commit_s=self._clock)
        self._groups += at_server
        self._followed.append(
            ReplicaGroup(
                tuple(update for group in at_server for update in group.members),
                crossing.via,
                crossing.transfers,
                crossing.arrival_s,
                self._clock,
                at_server[0].version_before,
            )
        )

    def replicated(self) -> Replicated:
        """What the runs followed so far come to."""
        plan = Plan(tuple(self._groups), self._plan.dropped, self._residual)
        updates = [update for group in self._groups for update in group.members]
        most = divergence(
            [group.commit_s for group in self._groups for _ in group.members],
            [group.commit_s for group in self._followed for _ in group.members],
            [update.norm for update in updates],
            self._replica.pending_norm,
        )
        return Replicated(plan, tuple(self._followed), most)

    def _kept(self, run: Sequence[Group]) -> list[Group]:
        """The first run's groups, as planned."""
        transfers = [transfer for group in run for transfer in group.transfers]
        self._residual = left_after(self._residual, transfers)
        self._note_sums(transfers)
        return list(run)

    def _redone(self, group: Group) -> Group:
        """A group reserved anew, committed after all that came before it."""
        transfers = realize_shape(self._batch, _shape(group), self._residual, self._left_at)
        self._note_sums(transfers)
        arrival_s = transfers[-1].end_s
        self._clock = max(self._clock, arrival_s)
        return replace(group, transfers=transfers, arrival_s=arrival_s, commit_s=self._clock)

    def _note_sums(self, transfers: Sequence[PlannedTransfer]) -> None:
        for transfer in _sums(transfers):
            self._sums_to_come[transfer.src] -= 1
            earlier = self._left_at.get(transfer.src, transfer.end_s)
            self._left_at[transfer.src] = max(earlier, transfer.end_s)

    def _cross(self, payloads: Sequence[_Payload]) -> _Crossing:
        """Reserve the earliest way of a run to the replica; straight where nothing is earlier."""
        best = self._straight(payloads)
        margin = RESIDUE * (best.arrival_s - self._batch.now)
        hosts = self._idle() if len(payloads) > 1 else []
        soonest = {host: self._soonest(payloads, host) for host in hosts}
        for host in sorted(hosts, key=soonest.__getitem__):
            if soonest[host] >= best.arrival_s - margin:
                break
            collected = self._collected(payloads, host)
            if collected.arrival_s < best.arrival_s - margin:
                best = collected
        self._residual = best.residual
        if best.via is not None:
            self._left_at[best.via] = best.arrival_s
        return best

    def _idle(self) -> list[str]:
        """Aggregators that the rest of the plan leaves alone, and that may collect (again)."""
        return [
            host
            for host in self._batch.aggregators
            if host not in (self._batch.server, self._replica.host)
            and not self._sums_to_come[host]
            and (self._batch.reuse or host not in self._left_at)
        ]

    def _straight(self, payloads: Sequence[_Payload]) -> _Crossing:
        residual = self._residual.copy()
        now = self._batch.now
        transfers, arrival_s = self._gather(payloads, self._replica.host, now, residual)
        return _Crossing(None, transfers, arrival_s, residual)

    def _collected(self, payloads: Sequence[_Payload], via: str) -> _Crossing:
        """A run summed at `via`, once all of it is there [paper]."""
        residual = self._residual.copy()
        begin = self._left_at.get(via, self._batch.now)
        collecting, ready_s = self._gather(payloads, via, begin, residual)
        total = _Payload(_members(payloads), via, ready_s)
        crossing, arrival_s = self._gather([total], self._replica.host, ready_s, residual)
        return _Crossing(via, (*collecting, *crossing), arrival_s, residual)

    def _gather(
        self, payloads: Sequence[_Payload], dst: str, begin: float, residual: Residual
    ) -> tuple[tuple[PlannedTransfer, ...], float]:
        """Reserve the way of payloads to `dst`, in order; what is there already does not move."""
        transfers, last = [], begin
        for payload in payloads:
            start = max(payload.ready_s, begin)
            n_bytes = self._batch.sum_bytes(payload.members)
            pieces = residual.reserve(payload.src, dst, start, n_bytes)
            if payload.src != dst:
                ids = tuple(update.id for update in payload.members)
                transfers.append(PlannedTransfer(ids, payload.src, dst, pieces))
            last = max(last, pieces[-1].end if pieces else start)
        return tuple(transfers), last

    def _soonest(self, payloads: Sequence[_Payload], via: str) -> float:
        """Before when a run summed at `via` cannot be at the replica."""
        finish, n_bytes = self._residual.finish, self._batch.sum_bytes
        begin = self._left_at.get(via, self._batch.now)
        ends = [finish(p.src, via, max(p.ready_s, begin), n_bytes(p.members)) for p in payloads]
        return finish(via, self._replica.host, max(ends), n_bytes(_members(payloads)))


def _members(payloads: Sequence[_Payload]) -> tuple[Update, ...]:
    return tuple(update for payload in payloads for update in payload.members)


def _sums(transfers: Sequence[PlannedTransfer]) -> list[PlannedTransfer]:
    return [transfer for transfer in transfers if len(transfer.updates) > 1]


def _payload(batch: Batch, group: Group) -> _Payload:
    """What a server group's last transfer carries, ready when all of it is at its source."""
    src = group.via or group.members[0].worker
    own = [batch.ready_s(update) for update in group.members if update.worker == src]
    ends = [transfer.end_s for transfer in group.transfers if transfer.dst == src]
    return _Payload(group.members, src, max(own + ends))


def _shape(group: Group) -> Shape:
    """The hops of a planned group."""
    by_id = {update.id: update for update in group.members}
    hops = [Hop(tuple(by_id[i] for i in t.updates), t.src, t.dst) for t in group.transfers]
    return Shape(group.members, tuple(hops), group.chunked)
