"""Chain replication: a server forwards what it is to apply, and waits until the replica has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mlfabric.engines.roles.shard import Shard
from mlfabric.payload import Payload


class Chain:
    """What a server does, in order: each forwarded update is waited for before all that follows."""

    def __init__(self, shard: Shard, replica: str) -> None:
        self._shard = shard
        self._replica = replica
        self._steps: deque[tuple[Payload | None, tuple[str, ...], Callable[[], None]]] = deque()
        self._forwarded = 0
        shard.on("replicated", self._replicated)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waited for."""
        return not self._steps

    def forward(self, update: Payload, names: tuple[str, ...], then: Callable[[], None]) -> None:
        """Send the replica the sum of these updates, and call `then` once it has applied that."""
        self._add(update, names, then)

    def after(self, call: Callable[[], None]) -> None:
        """Call once all that was to be forwarded before has been."""
        self._add(None, (), call)

    def release(self) -> None:
        """The replica is gone: do all that has been waiting, and wait no more."""
        steps, self._steps = self._steps, deque()
        for _, _, then in steps:
            then()

    def _add(
        self, update: Payload | None, names: tuple[str, ...], then: Callable[[], None]
    ) -> None:
        self._steps.append((update, names, then))
        if len(self._steps) == 1:
            self._go_on()

    def _go_on(self) -> None:
        while self._steps:
            update, names, then = self._steps[0]
            if update is not None:
                self._send(update, names)
                return
            then()
            self._steps.popleft()

    def _send(self, update: Payload, names: tuple[str, ...]) -> None:
        node = self._shard.node
        self._forwarded += 1
        header = self._shard.header(
            "chain",
            names,
            transfer=f"chain{self._forwarded}",
            final=self._replica,
            requested_s=node.now(),
        )
        node.stream(self._replica, header, update)

    def _replicated(self, src: str, version: int) -> None:
        if self._steps:
            _, _, then = self._steps[0]
            then()
            self._steps.popleft()
            self._go_on()
