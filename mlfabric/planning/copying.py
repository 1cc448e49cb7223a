"""Copies to a replica on their way over the links: when they go, and which are not needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlfabric.actions import Action, CancelTransfer
from mlfabric.planning.commits import OpenGroup
from mlfabric.planning.dispatch import Dispatch
from mlfabric.planning.following import Follower
from mlfabric.planning.loads import Transfer

BEFORE_ALL, AS_IT_COMES = -1, 0
"""Ranks of copies among what waits: before all else, or as groups on their way, which have 0 as
well; planned ones have 1. That copies go before planned groups costs less than 1 % where the bound
is loose, and less than to wait for them where it is tight [ours]."""


class Copying:
    """Sends what a `Follower` lacks, by a `Dispatch`; `numbers` tell equal ranks apart."""

    def __init__(self, follower: Follower, dispatch: Dispatch, numbers: Iterator[int]) -> None:
        self.follower = follower
        self._dispatch = dispatch
        self._numbers = numbers

    def arrived(self, group: OpenGroup) -> None:
        """The server has a group: the replica is to get it, too."""
        if not self.follower.promoted:
            self._wait(self.follower.copy_of(group), AS_IT_COMES)

    def allows(self, groups: Sequence[OpenGroup]) -> bool:
        """Whether the server may apply these now."""
        return self.follower.promoted or self.follower.allows(groups)

    def committed(self, groups: Sequence[OpenGroup], version: int) -> None:
        """The server applies these; `version` is the one it had before."""
        if not self.follower.promoted:
            self.follower.committed(groups, version)

    def dropped(self, group: OpenGroup) -> list[Action]:
        """A group will not be applied: nor is its copy wanted."""
        copy = self.follower.dropped(group)
        return [] if copy is None else self._dispatch.cancel(copy)

    def orders(self, version: int, server: str) -> list[Action]:
        """What the replica can do by now; what mends a copy that is lost."""
        actions: list[Action] = [*self.follower.due()]
        actions += self._cancelled(self.follower.take_needless())
        repaired = self.follower.repair(version, server)
        if repaired is None:
            return actions
        synchronize, needless = repaired
        unsent = [copy for copy in needless if copy.started_s is None]  # not to be kept, either
        actions += [CancelTransfer(c.owner.crossing.id, c.src, self.follower.host) for c in unsent]
        return [*actions, *self._cancelled(needless), synchronize]

    def lose(self, host: str) -> tuple[list[Action], list[OpenGroup]]:
        """A host is gone: cancels of what it was to send, and the groups of which that was."""
        lost = self.follower.lose(host)
        return self._cancelled(lost), [copy.owner for copy in lost]

    def stop(self) -> list[Action]:
        """The replica is gone: nothing is sent there."""
        return self._cancelled(self.follower.copies())

    def promote(self) -> None:
        """The replica serves: all else waits for what it still lacks."""
        self.follower.promoted = True
        for copy in self.follower.copies():
            if copy.key is not None:  # it waits for room
                self._dispatch.withdraw(copy)
                self._wait(copy, BEFORE_ALL)

    def _wait(self, copy: Transfer, rank: int) -> None:
        self._dispatch.add(copy, (rank, next(self._numbers), 0))

    def _cancelled(self, copies: Sequence[Transfer]) -> list[Action]:
        return [action for copy in copies for action in self._dispatch.cancel(copy)]
