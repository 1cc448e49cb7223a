"""A shard, one server's part of the parameters, as a host sees it: messages, streams and counts.

It is looked after as if it were a model of its own; workers compute on all shards at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from mlfabric.engines.roles.names import of_shard
from mlfabric.engines.roles.node import Header, Incoming, Node
from mlfabric.engines.tallies import Tally, new_tally
from mlfabric.events import Event
from mlfabric.payload import Payload, split

COMPUTATION = "computation"
"""The part of a host that waits for it."""

Cuts = Sequence[tuple[int, int]]


class Shard:
    """Shard `number` on one host."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.context = node.plan.contexts[number]
        self._of = f" (server {number + 1})" if len(node.plan.servers) > 1 else ""

    @property
    def serves_here(self) -> bool:
        """Whether this host is the shard's server."""
        return self.node.host == self.context.server

    def moves(self, host: str) -> None:
        """Another host serves it from now on, and nobody follows that."""
        self.context = replace(self.context, server=host, replication=None)

    def watch_server(self) -> None:
        """Take note when another host serves it."""
        self.on("promote", lambda src, host: self.moves(host))

    def waits_for(self, part: str, what: str | None) -> None:
        """Say what a part of this shard, on this host, waits for; None: for nothing."""
        key = f"{part} {self.number}"
        if what is None:
            self.node.waits.pop(key, None)
        else:
            self.node.waits[key] = what + self._of

    def tally(self) -> Tally:
        """The shard's counts, kept on this host from now on."""
        return self.node.tallies.setdefault(self.number, new_tally())

    def on(self, kind: str, handler: Callable[[str, Any], None]) -> None:
        """Call `handler` for this shard's messages of a kind."""
        self.node.on(of_shard(kind, self.number), handler)

    def send(self, host: str, kind: str, body: Any = None) -> None:
        """Send to the same shard on another host."""
        self.node.send(host, of_shard(kind, self.number), body)

    def report(self, event: Event) -> None:
        """Tell the shard's coordinator."""
        self.node.report(event, self.number)

    def receive(
        self,
        kinds: Sequence[str],
        announced: Callable[[Incoming], None],
        complete: Callable[[Incoming], None],
    ) -> None:
        """Be told of this shard's streams of some kinds."""
        for kind in kinds:
            self.node.receive(kind, self.number, announced, complete)

    def header(self, kind: str, updates: tuple[str, ...], **more: Any) -> Header:
        """That of a stream of this shard."""
        return {"kind": kind, "shard": self.number, "updates": updates, **more}

    def record(self, row: str, **values: Any) -> None:
        """Note a row of this shard."""
        self.node.record(row, shard=self.number, **values)

    def follow(self, model: NDArray[Any], version: int, *, last: bool = False) -> None:
        """Offer the replica of this shard to whoever compares it."""
        self.node.follow(model, version, last=last)

    def snapshot(self, model: NDArray[Any], version: int, *, last: bool = False) -> None:
        """Offer this shard of the model to whoever scores it."""
        self.node.snapshot(model, version, last=last, shard=self.number)


class JointComputation:
    """A worker's computation: on all shards of the model, once none of them is waited for."""

    def __init__(self, node: Node, whole: NDArray[Any], cuts: Cuts) -> None:
        self._node = node
        self._whole = whole
        self._cuts = cuts
        self._asked: dict[int, Callable[[int, Payload], None]] = {}

    def ask(self, shard: int, iteration: int, done: Callable[[int, Payload], None]) -> None:
        """This shard of the model is ready; `done` gets its part of the update."""
        self._asked[shard] = done
        if len(self._asked) == len(self._cuts):
            self._node.waits[COMPUTATION] = f"its computation of iteration {iteration}"
            self._node.compute(iteration, self._whole, self._computed)

    def _computed(self, iteration: int, update: Payload) -> None:
        del self._node.waits[COMPUTATION]
        asked, self._asked = self._asked, {}
        for shard, part in enumerate(split(update, self._cuts)):
            asked[shard](iteration, part)
