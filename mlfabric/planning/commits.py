"""In which order the server applies groups, so that no delay exceeds its bound [ours]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlfabric.events import Update
from mlfabric.planning.batch import Group, PlannedTransfer
from mlfabric.planning.loads import Transfer


@dataclass
class OpenGroup:
    """A group on its way: some of it has been sent, and the server has not applied it.

    `transfers` holds, by update id, what still brings a member to `via`, `collected` what has
    brought one; `crossing` brings the group (one update, or the sum) to the server.
    """

    members: list[Update]
    via: str | None
    crossing: Transfer
    transfers: dict[str, Transfer] = field(default_factory=dict)
    collected: dict[str, Transfer] = field(default_factory=dict)
    arrived: bool = False

    @classmethod
    def of(cls, group: Group, names: Iterator[str]) -> OpenGroup:
        """The transfers that a planned group needs, named one after another."""
        sizes = {update.id: float(update.bytes) for update in group.members}
        *collecting, crossing = [_transfer(t, sizes, next(names)) for t in group.transfers]
        by_update = {transfer.updates[0]: transfer for transfer in collecting}
        return cls(list(group.members), group.via, crossing, by_update)

    def has_arrived(self, transfer: Transfer) -> None:
        """Take note that one of its transfers has ended."""
        if transfer is self.crossing:
            self.arrived = True
        else:
            update = transfer.updates[0]
            self.collected[update] = self.transfers.pop(update)

    def startable(self) -> list[Transfer]:
        """What could be sent now if its links were free."""
        if self.transfers:
            return [t for t in self.transfers.values() if t.started_s is None]
        return [self.crossing] if self.crossing.started_s is None else []

    def later(self) -> list[Transfer]:
        """What cannot be sent before something else has arrived."""
        return [self.crossing] if self.transfers else []

    def slack(self, version: int, delay_bound: int) -> int:
        """How many commits may still come before this group."""
        return int(_slack(self.members, version, delay_bound))


def _transfer(planned: PlannedTransfer, sizes: Mapping[str, float], name: str) -> Transfer:
    if len(planned.updates) == 1:
        size = sizes[planned.updates[0]]
        return Transfer(name, "update", planned.updates, planned.src, planned.dst, size)
    size = sum(p.bytes_per_s * (p.end - p.start) for p in planned.pieces)
    return Transfer(name, "sum", planned.updates, planned.src, planned.dst, size)


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
