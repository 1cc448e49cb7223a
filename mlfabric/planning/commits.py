"""In which order the server applies groups, so that no delay exceeds its bound [ours]."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mlfabric.events import Update
from mlfabric.planning.batch import Group, PlannedTransfer
from mlfabric.planning.loads import Transfer


@dataclass(eq=False)
class OpenGroup:
    """A group that the server has not applied: a tree of transfers, inputs before outputs.

    The last transfer (`crossing`) brings the group, one update or a sum, to the server. `rank` is
    its priority: groups on their way (0) before planned ones (1), in order of their numbers.
    """

    members: list[Update]
    transfers: list[Transfer]
    rank: tuple[int, int] = (1, 0)
    arrived: bool = False
    oldest: int = field(init=False)
    crossing: Transfer = field(init=False)

    def __post_init__(self) -> None:
        self.crossing = self.transfers[-1]
        self.oldest = min(update.version for update in self.members)
        if len(self.transfers) == 1:
            self.crossing.owner = self
            return
        arriving: dict[str, list[Transfer]] = defaultdict(list)
        for place, transfer in enumerate(self.transfers):
            transfer.owner, transfer.place = self, place
            _join(transfer, arriving[transfer.src])
            arriving[transfer.dst].append(transfer)

    @classmethod
    def of(cls, group: Group, number: int, names: Iterator[str]) -> OpenGroup:
        """The transfers that a planned group needs, named one after another."""
        sizes = {update.id: float(update.bytes) for update in group.members}
        transfers = [_transfer(t, sizes, group.chunked, next(names)) for t in group.transfers]
        return cls(list(group.members), transfers, (1, number))

    @property
    def on_its_way(self) -> bool:
        """Whether some of it has been sent."""
        return self.rank[0] == 0

    def has_begun(self, transfer: Transfer) -> Transfer | None:
        """Take note that a transfer has started; returns the one that this allows to start."""
        return _feed(transfer) if transfer.chunked else None

    def has_arrived(self, transfer: Transfer) -> Transfer | None:
        """Take note that a transfer has ended; returns the one that this allows to start."""
        transfer.arrived = True
        self.arrived = self.arrived or transfer is self.crossing
        return None if transfer.chunked else _feed(transfer)

    def startable(self) -> list[Transfer]:
        """What could be sent now if its links were free."""
        return [t for t in self.transfers if t.started_s is None and not t.lacking]

    def unsent(self) -> list[Transfer]:
        """What has not been sent."""
        return [t for t in self.transfers if t.started_s is None]

    def summing(self) -> Iterator[str]:
        """Hosts that make sums for it, or still will."""
        return (t.src for t in self.transfers if t.inputs and not t.arrived)

    def needs(self, host: str) -> bool:
        """Whether something that is still to come of it is sent by this host, or to it."""
        return any(host in (t.src, t.dst) for t in self.transfers if not t.arrived)

    def slack(self, version: int, delay_bound: int) -> int:
        """How many commits may still come before this group."""
        return delay_bound - (version - self.oldest)

    def too_late(self, version: int, delay_bound: int) -> list[Update]:
        """Members to leave out of a commit at `version`.

        Those over the bound; all of them once a sum that contains one of these is being sent.
        """
        late = [u for u in self.members if version - u.version > delay_bound]
        names = {update.id for update in late}
        sums = [t for t in self.transfers if len(t.updates) > 1 and t.started_s is not None]
        mixed = any(name in names for t in sums for name in t.updates)
        return self.members.copy() if mixed else late

    def leave(self, late: Sequence[Update]) -> list[Transfer]:
        """Members leave the group; returns transfers that carry nothing else any more."""
        names = {update.id for update in late}
        self.members = [update for update in self.members if update.id not in names]
        self.oldest = min((update.version for update in self.members), default=self.oldest)
        for transfer in self.transfers:
            if not names.isdisjoint(transfer.updates):
                transfer.updates = tuple([u for u in transfer.updates if u not in names])
                transfer.kind = _kind(transfer.updates)
        gone = [transfer for transfer in self.transfers if not transfer.updates]
        self.transfers = [transfer for transfer in self.transfers if transfer.updates]
        for transfer in gone:
            _part(transfer)
        return gone


def _transfer(
    planned: PlannedTransfer, sizes: Mapping[str, float], chunked: bool, name: str
) -> Transfer:
    updates = planned.updates
    if len(updates) == 1:
        size = sizes[updates[0]]
    else:
        size = sum(p.bytes_per_s * (p.end - p.start) for p in planned.pieces)
        if not size < math.inf:  # it would never end as planned
            size = max(sizes[update] for update in updates)
    kind = _kind(updates)
    return Transfer(name, kind, updates, planned.src, planned.dst, size, chunked=chunked)


def _kind(updates: Sequence[str]) -> Literal["update", "sum"]:
    return "sum" if len(updates) > 1 else "update"


def _join(transfer: Transfer, arriving: Sequence[Transfer]) -> None:
    """Those that arrive where it starts and whose updates it passes on become its inputs."""
    carried = set(transfer.updates) if arriving else set()
    transfer.inputs = [t for t in arriving if carried.issuperset(t.updates)]
    transfer.lacking = len(transfer.inputs)
    for source in transfer.inputs:
        source.output = transfer


def _feed(transfer: Transfer) -> Transfer | None:
    output = transfer.output
    if output is None:
        return None
    output.lacking -= 1
    return None if output.lacking else output


def _part(transfer: Transfer) -> None:
    """It is no input of anything any more."""
    output = transfer.output
    if output is not None:
        output.inputs.remove(transfer)
        fed = transfer.started_s is not None if output.chunked else transfer.arrived
        output.lacking -= not fed


def next_commit(
    groups: Sequence[OpenGroup], version: int, delay_bound: int | None
) -> tuple[OpenGroup | None, list[OpenGroup]]:
    """The arrived group to commit next, and the groups that would be too late behind it.

    Without a bound, groups commit as they arrive. With one, the arrived group with the least slack
    goes first; a group on its way, or arrived, whose slack is less than what is committed before
    it would come too late.
    """
    arrived = [group for group in groups if group.arrived]
    if not arrived:
        return None, []
    if delay_bound is None:
        return arrived[0], []
    first = min(arrived, key=lambda group: group.slack(version, delay_bound))
    after = version + len(first.members)
    late = [g for g in groups if g is not first and g.slack(after, delay_bound) < 0]
    return first, late


def leave_time(groups: Iterable[OpenGroup], version: int, delay_bound: int | None) -> bool:
    """Whether all of these could still be applied in time, one by one, after one more update.

    One that is too late already is no reason to wait.
    """
    if delay_bound is None:
        return True
    by_slack = sorted((group.slack(version, delay_bound), len(group.members)) for group in groups)
    before = 1
    for slack, members in by_slack:
        if 0 <= slack < before:
            return False
        before += members
    return True


def all_come_by(at_s: float, groups: Sequence[OpenGroup], now: float) -> bool:
    """Whether all of these are on their way to the server and will have arrived by then."""
    return all(
        not group.arrived
        and group.crossing.started_s is not None
        and now + group.crossing.seconds_left(now) <= at_s
        for group in groups
    )


def planned_scale(
    rule: Callable[[int, int], float],
    open_groups: Iterable[OpenGroup],
    group: OpenGroup,
    worker: str,
    version: int,
) -> float:
    """What a step rule makes of a worker's update if all groups that set off before are applied
    before it [ours]; 1 where the group holds none of its updates."""
    pulled = next((update.version for update in group.members if update.worker == worker), None)
    if pulled is None:
        return 1.0
    at = version + sum(len(other.members) for other in open_groups if other.rank < group.rank)
    return rule(at, at - pulled)


def commit_times(
    members: Sequence[Sequence[Update]],
    arrivals: Sequence[float],
    version: int,
    delay_bound: int | None,
) -> list[tuple[int, float]]:
    """(place, commit time) of planned groups, in commit order.

    Groups stand in an order that keeps the bound. Each commits as it arrives, but is held while
    that would push one of those before it past the bound. Ties: the given order.
    """
    left = list(range(len(members)))
    waiting = sorted(left, key=lambda place: arrivals[place])
    slack = [_slack(updates, version, delay_bound) for updates in members]
    commits: list[tuple[int, float]] = []
    position, clock = 0, -math.inf
    while left:
        place = next(p for p in waiting if _harmless(p, left, members, slack, position))
        waiting.remove(place)
        left.remove(place)
        clock = max(clock, arrivals[place])
        commits.append((place, clock))
        position += len(members[place])
    return commits


def _slack(members: Sequence[Update], version: int, delay_bound: int | None) -> float:
    if delay_bound is None:
        return math.inf
    return delay_bound - (version - min(update.version for update in members))


def _harmless(
    place: int,
    left: Sequence[int],
    members: Sequence[Sequence[Update]],
    slack: Sequence[float],
    position: int,
) -> bool:
    """Whether those before it may still follow it."""
    after = position + len(members[place])
    for other in left:
        if other == place:
            return True
        if after > slack[other]:
            return False
        after += len(members[other])
    return True
