"""One server's share of the parameters, as a host sees it: its own messages, streams and counts.

A share is looked after as if it were a model of its own; its workers compute on all shares at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from mlfabric.engines.roles.node import Header, Incoming, Node
from mlfabric.engines.tallies import Tally, new_tally
from mlfabric.events import Event
from mlfabric.payload import Payload, split

Cuts = Sequence[tuple[int, int]]


class Shard:
    """Share `number` on one host."""

    def __init__(self, node: Node, number: int) -> None:
        self.node = node
        self.number = number
        self.context = node.plan.context_of(number)
        self._of = f" (server {number + 1})" if len(node.plan.servers) > 1 else ""

    @property
    def serves_here(self) -> bool:
        """Whether this host is the share's server."""
        return self.node.host == self.context.server

    def waits_for(self, what: str) -> None:
        """Say what this host waits for."""
        self.node.waiting_for = what + self._of

    def tally(self) -> Tally:
        """The share's counts, kept on this host from now on."""
        return self.node.tallies.setdefault(self.number, new_tally())

    def on(self, kind: str, handler: Callable[[str, Any], None]) -> None:
        """Call `handler` for this share's messages of a kind."""
        self.node.on(f"{kind}@{self.number}", handler)

    def send(self, host: str, kind: str, body: Any = None) -> None:
        """Send to the same share on another host."""
        self.node.send(host, f"{kind}@{self.number}", body)

    def report(self, event: Event) -> None:
        """Tell the share's coordinator."""
        self.node.report(event, self.number)

    def receive(
        self,
        kinds: Sequence[str],
        announced: Callable[[Incoming], None],
        complete: Callable[[Incoming], None],
    ) -> None:
        """Be told of this share's streams of some kinds."""
        for kind in kinds:
            self.node.receive(kind, self.number, announced, complete)

    def header(self, kind: str, updates: tuple[str, ...], **more: Any) -> Header:
        """That of a stream of this share."""
        return {"kind": kind, "shard": self.number, "updates": updates, **more}

    def record(self, row: str, **values: Any) -> None:
        """Note a row of this share."""
        self.node.record(row, shard=self.number, **values)

    def snapshot(self, model: NDArray[Any], version: int, *, last: bool = False) -> None:
        """Offer this share of the model to whoever scores it."""
        self.node.snapshot(model, version, last=last, shard=self.number)


class JointComputation:
    """A worker's computation: on all shares of the model, once none of them is waited for."""

    def __init__(self, node: Node, whole: NDArray[Any], cuts: Cuts) -> None:
        self._node = node
        self._whole = whole
        self._cuts = cuts
        self._asked: dict[int, Callable[[int, Payload], None]] = {}

    def ask(self, shard: int, iteration: int, done: Callable[[int, Payload], None]) -> None:
        """This share of the model is ready; `done` gets its part of the update."""
        self._asked[shard] = done
        if len(self._asked) == len(self._cuts):
            self._node.waiting_for = f"its computation of iteration {iteration}"
            self._node.compute(iteration, self._whole, self._computed)

    def _computed(self, iteration: int, update: Payload) -> None:
        asked, self._asked = self._asked, {}
        for shard, part in enumerate(split(update, self._cuts)):
            asked[shard](iteration, part)
