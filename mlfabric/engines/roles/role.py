"""What a host does besides moving messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

Saved = Callable[[str, str], Any]
"""The state that a role had, by its host and its name."""


class Role:
    """What a run begins and ends; nothing to do then, where a role has no more to say."""

    def start(self) -> None:
        """The clock has started."""

    def finish(self) -> None:
        """The run is over; what is still handled counts for nothing."""


class LastingRole(Role, ABC):
    """A role that can go on in another process, on the same host (`roles.holding`)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What its state is called among those of its host."""

    def hold_until(self, until: int) -> None:
        """Do nothing after iteration `until` before it is told to go on (of a collective)."""

    @property
    def may_be_saved(self) -> bool:
        """Whether it is where `holding` wants it."""
        return True

    @abstractmethod
    def state(self) -> Any:
        """A copy of what it needs to go on, for pickle; None where another one's is enough."""

    @abstractmethod
    def restore(self, saved: Saved) -> None:
        """Before `start`: go on from what was saved."""
