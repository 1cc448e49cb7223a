"""All-reduce over a static binary tree: sums rise to the first worker, the result comes down.

The vector is cut into lanes of at most one chunk, so that a worker passes one lane on while the
next arrives. An inner worker takes in two vectors and sends three, whatever its link can carry.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from mlfabric.payload import Payload, dense, total
from mlfabric.policies.base import Message, MomentumOptions, Operations, PolicyContext

PLACE: Literal["workers"] = "workers"
Options = MomentumOptions

UP, DOWN = 0, 1


class TreeAllreduce:
    """One worker's side of one operation. A message's key is (lane, UP or DOWN)."""

    def __init__(self, worker: int, workers: int, chunk_bytes: int) -> None:
        self._worker = worker
        self._parent = (worker - 1) // 2
        self._children = [c for c in (2 * worker + 1, 2 * worker + 2) if c < workers]
        self._chunk_bytes = chunk_bytes
        self._early: list[Message] = []
        self._lanes: list[list[Payload]] = []
        self._results: list[Payload | None] = []

    def start(self, update: Payload, now: float) -> list[Message]:
        """Cut this worker's update into lanes; a leaf sends them up at once."""
        self._lanes = [[lane] for lane in self._cut(update)]
        self._results = [None] * len(self._lanes)
        messages = [m for lane in range(len(self._lanes)) for m in self._rise(lane)]
        early, self._early = self._early, []
        for message in early:
            messages += self.receive(message, now)
        return messages

    def receive(self, message: Message, now: float) -> list[Message]:
        """Take a child's sum, or the parent's result."""
        if not self._lanes:
            self._early.append(message)
            return []
        lane, way = message.key
        if way == DOWN:
            return self._descend(lane, message.payload)
        self._lanes[lane].append(message.payload)
        return self._rise(lane)

    def result(self) -> Payload | None:
        """The sum, once all lanes have come down."""
        found = [lane for lane in self._results if lane is not None]
        if not found or len(found) < len(self._results):
            return None
        if len(found) == 1:
            return found[0]
        return dense(np.concatenate([lane.values for lane in found]))

    def _rise(self, lane: int) -> list[Message]:
        """Pass a lane's sum on once all children's are in it."""
        if len(self._lanes[lane]) <= len(self._children):
            return []
        summed = total(self._lanes[lane])
        if self._worker == 0:
            return self._descend(lane, summed)
        return [Message(self._worker, self._parent, (lane, UP), summed)]

    def _descend(self, lane: int, result: Payload) -> list[Message]:
        self._results[lane] = result
        return [Message(self._worker, child, (lane, DOWN), result) for child in self._children]

    def _cut(self, update: Payload) -> list[Payload]:
        if update.indices is not None:
            return [update]
        lanes = max(1, math.ceil(update.values.nbytes / self._chunk_bytes))
        return [dense(part) for part in np.array_split(update.values, lanes)]


def build(context: PolicyContext, worker: int) -> Operations:
    """The side of worker 0 .. n - 1 of one operation after another."""
    return lambda: TreeAllreduce(worker, len(context.workers), context.payload_chunk_bytes)
