"""All-reduce over a static binary tree: sums rise to the first worker, the result comes down.

The vector is cut into lanes of at most one chunk, so that a worker passes one lane on while the
next arrives. An inner worker takes in two vectors and sends three, whatever its link can carry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from mlfabric.policies.base import MomentumOptions, Piece, PolicyContext

PLACE: Literal["workers"] = "workers"
Options = MomentumOptions


class Tree:
    """The same tree for every vector."""

    measures = False

    def __init__(self, workers: int, chunk_bytes: int) -> None:
        self._parents = tuple(max((worker - 1) // 2, 0) for worker in range(workers))
        self._chunk_bytes = chunk_bytes

    def pieces(self, size: int, item_bytes: int) -> Sequence[Piece]:
        entries = max(self._chunk_bytes // item_bytes, 1)
        return _laned(size, max(1, math.ceil(size / entries)), self._parents)

    def learn(self, bytes_per_s: Mapping[int, float]) -> None:
        """It stays as it is."""


@lru_cache(maxsize=16)
def _laned(size: int, lanes: int, parents: tuple[int, ...]) -> tuple[Piece, ...]:
    return tuple(
        Piece(size * lane // lanes, size * (lane + 1) // lanes, parents, parents)
        for lane in range(lanes)
    )


def build(context: PolicyContext) -> Tree:
    """How every worker sums."""
    return Tree(len(context.workers), context.payload_chunk_bytes)
