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

GAIN = 0.7
"""Hosts are taken out of the chains where that makes an operation at least so much shorter:
estimates are not exact, and where links are alike nothing is to be gained [ours]."""

NEARLY = 1.1
"""Of all choices about as good as the best, that with most hosts in the chains [ours]."""

EVEN_LANES = 3
"""Fewest lanes of a share: one is on its way while another is summed, and two tell a rate."""

LEAF_ROOTS = 2
"""Roots for each leaf: so many connections share its link, and each of these hosts has so much
less of a vector to carry for it, each way [ours]."""

LEAF_LANES, LEAF_LANE_BYTES = 16, 8_192
"""With leaves: lanes of a share, of so many bytes at least. Little is left to do once a slow link
has sent its last lane [ours]."""


MEASURED_EVERY_S = 0.4
"""Links are looked at about so often: telling all workers costs short operations a few per cent,
and stragglers stay for longer [ours]."""


class Adaptive:
    """Chains of hosts with fast links, the others as leaves."""

    def __init__(self, line_bytes_per_s: Sequence[float], chunk_bytes: int) -> None:
        self._line = line_bytes_per_s
        self._chunk_bytes = chunk_bytes
        self._rates = list(line_bytes_per_s)
        self._last = list(line_bytes_per_s)
        self._turn = 0
        self._unmeasured_s = math.inf
        self.measures = True

    def pieces(self, size: int, item_bytes: int) -> Sequence[Piece]:
        members = tuple(chain_members(self._rates))
        leaves = tuple(worker for worker in range(len(self._rates)) if worker not in members)
        self._count(size * item_bytes, members)
        roots = self._roots(len(members), len(leaves))
        share_bytes = math.ceil(size / len(roots)) * item_bytes
        lanes = max(EVEN_LANES, math.ceil(share_bytes / self._chunk_bytes))
        if leaves:
            lanes = max(lanes, min(LEAF_LANES, share_bytes // LEAF_LANE_BYTES))
        return chained(size, members, leaves, roots, lanes)

    def _count(self, n_bytes: int, members: Sequence[int]) -> None:
        """Whether the next operation is to be measured; where its size is not known, it is."""
        chains_s = 2 * n_bytes / min(self._rates[worker] for worker in members)
        self._unmeasured_s += max(chains_s, n_bytes / min(self._rates))
        self.measures = not n_bytes or self._unmeasured_s >= MEASURED_EVERY_S
        if self.measures:
            self._unmeasured_s = 0.0

    def _roots(self, members: int, leaves: int) -> tuple[int, ...]:
        """All members; with leaves, a few, and others each time, as a chain's first link alone
        tells its rate."""
        if not leaves:
            return tuple(range(members))
        count = min(LEAF_ROOTS * leaves, members)
        return tuple((self._turn + members * root // count) % members for root in range(count))

    def learn(self, bytes_per_s: Mapping[int, float]) -> None:
        """The better of a link's last two rates counts: one message that is taken notice of late
        makes a fast link look slow. None is above that of the line, however close together two
        are taken notice of. One that has become much slower is looked at again at once."""
        self._turn += 1
        if any(rate < GAIN * self._rates[worker] for worker, rate in bytes_per_s.items()):
            self._unmeasured_s = math.inf
        for worker, rate in bytes_per_s.items():
            self._rates[worker] = min(max(rate, self._last[worker]), self._line[worker])
            self._last[worker] = rate


def chain_members(rates: Sequence[float]) -> list[int]:
    """The workers whose links are fast enough for the chains, in their order: half at least.

    With m members and k leaves a member sends (2 (m - 1) + k) / m vectors, a leaf one.
    """
    fastest = sorted(range(len(rates)), key=lambda worker: -rates[worker])
    seconds = {}
    for count in range((len(fastest) + 1) // 2, len(fastest) + 1):
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
    lines = [context.line_bytes_per_s[worker] for worker in context.workers]
    return Adaptive(lines, context.payload_chunk_bytes)
