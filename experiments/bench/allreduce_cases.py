"""What the all-reduce benchmark measures: hosts, links, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlfabric.emulation.spec import RateEvent
from mlfabric.emulation.stragglers import NetworkStragglers, network_events

RATE = 12.5e6
"""100 Mbit/s."""

HOSTS = tuple(f"h{number}" for number in range(1, 13))
MEGABYTE = 1_000_000
LEARNING = 2
"""Operations at the start of a size that do not count: links are learned, connections warm."""

CHANGING_S = 90.0
SEED = 0


@dataclass(frozen=True)
class Case:
    """Links at `factors` of the rate; `sizes` in bytes, each with its number of operations.

    With `changing`, links change while operations go on, as under NS1.
    """

    name: str
    sizes: Mapping[int, int]
    factors: Mapping[str, float] = field(default_factory=dict)
    changing: bool = False

    def bound_s(self, size: int) -> float:
        """No all-reduce is faster: the ring's bound on equal links, else the slowest host's."""
        ring = 2 * (len(HOSTS) - 1) / len(HOSTS) * size / RATE
        return max([ring, *(size / (RATE * factor) for factor in self.factors.values())])

    def rate_events(self) -> list[RateEvent]:
        """NS1 of the laptop clusters."""
        if not self.changing:
            return []
        return network_events(NetworkStragglers(0.05, 0.1, 1.5), HOSTS, SEED, CHANGING_S)


CASES = (
    Case("equal", {MEGABYTE: 15, 4 * MEGABYTE: 9, 16 * MEGABYTE: 5}),
    Case(
        "one at 25 %",
        {MEGABYTE: 9, 4 * MEGABYTE: 5, 16 * MEGABYTE: 2},
        factors={"h5": 0.25},
    ),
    Case(
        "two at 10 %",
        {MEGABYTE: 5, 4 * MEGABYTE: 3, 16 * MEGABYTE: 1},
        factors={"h5": 0.1, "h9": 0.1},
    ),
    Case("changing", {4 * MEGABYTE: 40}, changing=True),
)
GLANCE = (
    Case("equal links", {4 * MEGABYTE: 7}),
    Case("one host at 25 %", {4 * MEGABYTE: 5}, factors={"h5": 0.25}),
)
"""What a figure shows within minutes."""
