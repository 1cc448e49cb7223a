"""MLfabric-S as a collective: shares of the vector, each with a tree of its own, by measured rates.

While links are alike the trees are chains, and the load is a ring's. A slow host is taken out of
the chains: it hangs as a leaf on the roots of all shares, so that its link carries its own part
and the result, once each, lane by lane; one slow host delays one leaf, where a ring is as slow as
its slowest link.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from mlfabric.policies.base import MomentumOptions, Piece, PolicyContext
from mlfabric.policies.parts.chains import chained

PLACE: Literal["workers"] = "workers"
Options = MomentumOptions

GAIN = 0.75
"""Hosts are taken out of the chains where that makes an operation at least so much shorter:
estimates are not exact, and where links are alike nothing is to be gained [ours]."""

NEARLY = 1.1
"""Of all choices about as good as the best, that with most hosts in the chains [ours]."""

EVEN_LANES = 3
"""Fewest lanes of a share: one is on its way while another is summed, and two tell a rate."""

LEAF_LANES, LEAF_LANE_BYTES = 16, 8_192
"""With leaves: lanes of a share, of so many bytes at least. Little is left to do once a slow link
has sent its last lane [ours]."""


class Adaptive:
    """Chains of hosts with fast links, the others as leaves."""

    measures = True

    def __init__(self, workers: int, chunk_bytes: int) -> None:
        self._workers = workers
        self._chunk_bytes = chunk_bytes
        self._rates = dict.fromkeys(range(workers), 1.0)

    def pieces(self, size: int, item_bytes: int) -> Sequence[Piece]:
        members = chain_members(self._rates)
        leaves = tuple(worker for worker in range(self._workers) if worker not in members)
        share_bytes = math.ceil(size / len(members)) * item_bytes
        lanes = max(EVEN_LANES, math.ceil(share_bytes / self._chunk_bytes))
        if leaves:
            lanes = max(lanes, min(LEAF_LANES, share_bytes // LEAF_LANE_BYTES))
        return chained(size, tuple(members), leaves, lanes)

    def learn(self, bytes_per_s: Mapping[int, float]) -> None:
        """A rate holds until another is seen."""
        self._rates |= bytes_per_s


def chain_members(rates: Mapping[int, float]) -> list[int]:
    """The workers whose links are fast enough for the chains, in their order.

    With m members and k leaves a member sends (2 (m - 1) + k) / m vectors, a leaf one.
    """
    fastest = sorted(rates, key=lambda worker: -rates[worker])
    seconds = {}
    for count in range(1, len(fastest) + 1):
        load = (2 * (count - 1) + len(fastest) - count) / count
        slowest_leaf_s = 1 / rates[fastest[-1]] if count < len(fastest) else 0.0
        seconds[count] = max(load / rates[fastest[count - 1]], slowest_leaf_s)
    best = min(seconds.values())
    if best > GAIN * seconds[len(fastest)]:
        return sorted(fastest)
    count = max(count for count, needed in seconds.items() if needed <= NEARLY * best)
    return sorted(fastest[:count])


def build(context: PolicyContext) -> Adaptive:
    """How every worker sums."""
    return Adaptive(len(context.workers), context.payload_chunk_bytes)
