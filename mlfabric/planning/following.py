"""How a replica follows the server while a run goes on [paper, Fig. 3].

A copy of every group goes to the replica once the server has it, from the host that sent it there.
The replica commits the server's groups in the server's order, each once it has reported the one
before: what it may lack is counted until it says that it has it.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from mlfabric.actions import CommitAtReplica, CopyGroup, SynchronizeReplica
from mlfabric.planning.commits import OpenGroup
from mlfabric.planning.loads import Transfer
from mlfabric.policies.base import Replication


@dataclass(frozen=True)
class _Commit:
    """Groups that the server has applied at once and the replica has not reported."""

    copies: tuple[Transfer, ...]
    updates: tuple[str, ...]
    norm: float
    version: int

    @property
    def after(self) -> int:
        """The version once it is applied."""
        return self.version + len(self.updates)

    @property
    def has_come(self) -> bool:
        """Whether the replica could apply it."""
        return all(copy.arrived for copy in self.copies)


class Follower:
    """What the replica lacks, and what the server may commit before the replica has that.

    `momentum` is the server's: a commit then moves the model by its velocity. Without a bound
    given, the first updates, one a worker, are committed together with the replica, and their norms
    tell.
    """

    def __init__(
        self, replication: Replication, names: Iterator[str], momentum: float, workers: int
    ) -> None:
        self.host = replication.host
        self.bound = replication.divergence_bound
        self._rounds = replication.bound_rounds
        self._names = names
        self._momentum = momentum
        self._workers = workers
        self._norms: list[float] = []
        self._velocity = 0.0
        self._copies: dict[OpenGroup, Transfer] = {}
        self._commits: deque[_Commit] = deque()
        self._ordered = 0
        self._lost: set[str] = set()
        self._synchronized_to = 0
        self.promoted = False
        self._needless: list[Transfer] = []

    def memory(self) -> tuple[float | None, list[float], float]:
        """What was learned of norms: the bound, the first updates' norms, the velocity's."""
        return self.bound, list(self._norms), self._velocity

    def remember(self, memory: tuple[float | None, list[float], float]) -> None:
        """Go on with what another one had learned."""
        self.bound, self._norms, self._velocity = memory

    @property
    def catching_up(self) -> bool:
        """Whether the replica is to serve and lacks what the server had committed."""
        return self.promoted and bool(self._commits)

    @property
    def pending_norm(self) -> float:
        """At most how far the replica is from the server: L2, L1 for counts."""
        return math.fsum(commit.norm for commit in self._commits)

    @property
    def divergence(self) -> tuple[float, float | None]:
        """At most how far the replica is behind, and the bound, None while it is not known."""
        return self.pending_norm, self.bound

    def copy_of(self, group: OpenGroup) -> Transfer:
        """What is to bring the replica a group that has arrived at the server."""
        crossing = group.crossing
        copy = Transfer(
            next(self._names), "copy", crossing.updates, crossing.src, self.host, crossing.bytes
        )
        copy.owner = group
        self._copies[group] = copy
        return copy

    def order_to_send(self, copy: Transfer) -> CopyGroup:
        """What its source is told when a copy starts."""
        source = copy.owner.crossing.id
        return CopyGroup(copy.id, source, copy.updates, copy.src, copy.dst)

    def dropped(self, group: OpenGroup) -> Transfer | None:
        """A group will not be applied: the copy of it that there is, to be cancelled."""
        return self._copies.pop(group, None)

    def allows(self, groups: Sequence[OpenGroup]) -> bool:
        """Whether the server may apply these at once, now.

        Within the bound; beyond it only where the replica has all else and can apply them too.
        """
        moves = self._moved_by(groups)
        if self.bound is not None and self.pending_norm + moves <= self.bound:
            return True
        return not self._commits and all(self._copies[group].arrived for group in groups)

    def committed(self, groups: Sequence[OpenGroup], version: int) -> None:
        """The server applies these at once; `version` is the one it had before."""
        moves = self._moved_by(groups)
        if self._momentum:
            self._velocity = moves
        members = [update for group in groups for update in group.members]
        copies = tuple(self._copies.pop(group) for group in groups)
        names = tuple(update.id for update in members)
        self._commits.append(_Commit(copies, names, moves, version))
        if self.bound is None:
            self._norms += [update.norm for update in members]
            if len(self._norms) >= self._workers:
                self.bound = self._rounds * self._workers * fmean(self._norms)

    def due(self) -> list[CommitAtReplica]:
        """What the replica can apply by now, in order."""
        orders = []
        while self._ordered < len(self._commits):
            commit = self._commits[self._ordered]
            lost = self._is_lost(commit)
            if not (self.promoted if lost else commit.has_come):
                break
            self._ordered += 1
            if lost:
                self._needless += [c for c in commit.copies if c.id not in self._lost]
            names = () if lost else tuple(copy.id for copy in commit.copies)
            orders.append(CommitAtReplica(names, commit.updates, commit.version))
        return orders

    def caught_up(self, version: int) -> None:
        """The replica holds all updates up to this version."""
        while self._commits and self._commits[0].after <= version:
            self._commits.popleft()
            self._ordered = max(self._ordered - 1, 0)

    def take_needless(self) -> list[Transfer]:
        """Copies of commits that are lost, to be cancelled."""
        found, self._needless = self._needless, []
        return found

    def lose(self, host: str) -> list[Transfer]:
        """Copies that will not come, as this host was to send them."""
        lost = [copy for copy in self.copies() if copy.src == host and not copy.arrived]
        self._lost.update(copy.id for copy in lost)
        return lost

    def copies(self) -> list[Transfer]:
        """All that are on their way or still to be sent, or wait at the replica, in order."""
        waiting = itertools.islice(self._commits, self._ordered, None)
        return [*(copy for commit in waiting for copy in commit.copies), *self._copies.values()]

    def repair(self, version: int, server: str) -> tuple[SynchronizeReplica, list[Transfer]] | None:
        """Where a committed sum is lost to the replica: let the server send all that it holds, of
        this version, in its place; copies of what that contains are to be cancelled."""
        open_commits = [*itertools.islice(self._commits, self._ordered, None)]
        unmended = (c for c in open_commits if c.version >= self._synchronized_to)
        if self.promoted or not any(map(self._is_lost, unmended)):
            return None
        self._synchronized_to = version
        needless = [c for commit in open_commits for c in commit.copies if c.id not in self._lost]
        self._lost.update(copy.id for copy in needless)
        return SynchronizeReplica(next(self._names), server, self.host, version), needless

    def _is_lost(self, commit: _Commit) -> bool:
        return any(copy.id in self._lost for copy in commit.copies)

    def _moved_by(self, groups: Sequence[OpenGroup]) -> float:
        """At most how far the server's model moves by these."""
        norms = (update.norm for group in groups for update in group.members)
        return math.fsum((self._momentum * self._velocity, *norms))
