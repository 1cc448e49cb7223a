"""A batch on a grid of time slots: what the exact problem is stated in [paper, appendix]."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from mlfabric.errors import SettingError
from mlfabric.events import Update
from mlfabric.planning.batch import Batch
from mlfabric.planning.profile import Profile
from mlfabric.topology import Link

_DENOMINATOR = 1_000_000
"""Times in seconds are taken as fractions of at most this denominator."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Slots:
    """`count` slots of `slot_s` seconds from `batch.now` on; bytes are whole as in the batch.

    A transfer may share a slot's capacity with others, and has arrived when a slot ends.
    """

    batch: Batch
    slot_s: float
    count: int

    @cached_property
    def capacity(self) -> dict[Link, NDArray[np.float64]]:
        """Bytes that every link can carry in each slot."""
        edges = self.batch.now + self.slot_s * np.arange(self.count + 1, dtype=np.float64)
        profiles = self.batch.residual.profiles()
        return {link: np.diff(_carried(profile, edges)) for link, profile in profiles.items()}

    def path(self, src: str, dst: str) -> tuple[Link, ...]:
        """Links from `src` to `dst`; none on one host."""
        return self.batch.residual.network.topology.path(src, dst)

    def room(self, src: str, dst: str) -> NDArray[np.float64]:
        """Bytes that could cross in each slot if nothing else did; inf on one host."""
        room = np.full(self.count, np.inf)
        for link in self.path(src, dst):
            np.minimum(room, self.capacity[link], out=room)
        return room

    def ready(self, update: Update) -> int:
        """The first slot in which it may be sent."""
        return math.ceil((self.batch.ready_s(update) - self.batch.now) / self.slot_s - _ROUNDING)

    def arrival(self, room: NDArray[np.float64], start: int, n_bytes: float) -> int:
        """Slots over when `n_bytes` have crossed from slot `start` on; more than `count`: never."""
        if np.isinf(room).all():
            return start
        carried = np.cumsum(room[start:])
        return start + 1 + int(np.searchsorted(carried, n_bytes * (1 - _ROUNDING)))

    def groups(self, hops: Sequence[str]) -> dict[str, list[Update]]:
        """The updates that go to each aggregator first, where `hops` has every first hop."""
        groups: dict[str, list[Update]] = {}
        for update, hop in zip(self.batch.updates, hops, strict=True):
            if hop != self.batch.server:
                groups.setdefault(hop, []).append(update)
        return groups

    def collected(self, host: str, members: Sequence[Update]) -> int:
        """Slots before which a host cannot have all members, whatever else is sent."""
        moving = [update for update in members if update.worker != host]
        ingress = self.capacity[Link(host, "ingress")]
        alone = [
            self.arrival(self.room(update.worker, host), self.ready(update), update.bytes)
            for update in members
        ]
        together = [
            self.arrival(
                ingress,
                start,
                sum(update.bytes for update in moving if self.ready(update) >= start),
            )
            for start in {self.ready(update) for update in moving}
        ]
        return max(alone + together)

    def earliest(self, update: Update) -> int:
        """Slots over when it can be at the server, were it alone."""
        room = self.room(update.worker, self.batch.server)
        return self.arrival(room, self.ready(update), update.bytes)

    def sent_directly(self) -> int | None:
        """Sum of the completion times, in slots, of sending all directly; None if it never ends."""
        left = {link: room.copy() for link, room in self.capacity.items()}
        total = 0
        for update in sorted(self.batch.updates, key=self.earliest):
            end = self._sent(update, left)
            if end > self.count:
                return None
            total += end
        return total

    def _sent(self, update: Update, left: dict[Link, NDArray[np.float64]]) -> int:
        path = self.path(update.worker, self.batch.server)
        start, missing = self.ready(update), float(update.bytes)
        if not path:
            return start
        room = np.minimum.reduce([left[link] for link in path])
        end = self.arrival(room, start, missing)
        for slot in range(start, min(end, self.count)):
            sent = min(missing, room[slot])
            missing -= sent
            for link in path:
                left[link][slot] -= sent
        return end


def _carried(profile: Profile, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bytes that a link carries from its profile's origin until each of `times`."""
    starts, rates = np.array(profile.times), np.array(profile.rates)
    before = np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(starts))])
    step = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
    carried: NDArray[np.float64] = before[step] + rates[step] * (times - starts[step])
    return carried


def grid_slot_s(batch: Batch) -> float:
    """The largest slot on whose grid lie all ready times, changes of rate and lone transfers.

    Raises SettingError where there is none above a millionth of a second.
    """
    times = [
        Fraction(time).limit_denominator(_DENOMINATOR)
        for time in (*_moments(batch), *_durations(batch))
        if 0 < time < math.inf
    ]
    common = math.lcm(*(time.denominator for time in times))
    whole = math.gcd(*(time.numerator * (common // time.denominator) for time in times))
    slot = Fraction(whole or 1, common)
    if slot * _DENOMINATOR < 1:
        raise SettingError(
            "slot_s: no slot divides all ready times, changes of rate and lone transfers; give one"
        )
    return float(slot)


def _moments(batch: Batch) -> Iterator[float]:
    """Seconds from now until an update is ready or a link changes its rate."""
    yield from (batch.ready_s(update) - batch.now for update in batch.updates)
    for profile in batch.residual.profiles().values():
        yield from (time - batch.now for time in profile.times)


def _durations(batch: Batch) -> Iterator[float]:
    """Seconds that every transfer would take alone, at every rate that its path ever has."""
    profiles = batch.residual.profiles()
    topology = batch.residual.network.topology
    sizes = {update.bytes for update in batch.updates} | {batch.model_bytes or 0}
    hosts = {update.worker for update in batch.updates} | set(batch.aggregators)
    for src, dst in product(hosts, (*batch.aggregators, batch.server)):
        path = [profiles[link] for link in topology.path(src, dst)]
        changes = {time for profile in path for time in profile.times}
        rates = {min(profile.rate_at(time) for profile in path) for time in changes}
        yield from (size / rate for size in sizes for rate in rates if rate > 0)
