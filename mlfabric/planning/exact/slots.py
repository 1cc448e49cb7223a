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

from mlfabric.errors import GridTooFine
from mlfabric.events import Update
from mlfabric.planning.batch import Batch
from mlfabric.planning.profile import Profile
from mlfabric.topology import Link

_DENOMINATOR = 1_000_000
"""Times in seconds are taken as fractions of at most this denominator."""
_ROUNDING = 1e-9
"""Slots that a time may be off by, and the share that a transfer may lack."""


@dataclass(frozen=True)
class Slots:
    """`count` slots of `slot_s` seconds from `batch.now` on; bytes are whole as in the batch.

    A transfer may share a slot's capacity with others, and has arrived when a slot ends. Times
    within a slot count as its end, and of several rates the lowest: whatever the batch is, a plan
    on the grid can be carried out.
    """

    batch: Batch
    slot_s: float
    count: int

    @cached_property
    def capacity(self) -> dict[Link, NDArray[np.float64]]:
        """Bytes that every link can carry in each slot at the lowest rate that it has there."""
        profiles = self.batch.residual.profiles()
        return {link: self.slot_s * self._lowest(profile) for link, profile in profiles.items()}

    def _lowest(self, profile: Profile) -> NDArray[np.float64]:
        """Bytes/s that a link has throughout each slot."""
        starts = (np.array(profile.times) - self.batch.now) / self.slot_s
        slot = np.arange(self.count)
        first = np.searchsorted(starts, slot + _ROUNDING, side="right") - 1
        after = np.searchsorted(starts, slot + 1 - _ROUNDING)
        ranges = np.column_stack([first, after]).ravel()
        lowest: NDArray[np.float64] = np.minimum.reduceat([*profile.rates, np.inf], ranges)[::2]
        return lowest

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


def grid_slot_s(batch: Batch) -> float:
    """The largest slot on whose grid lie all ready times, changes of rate and lone transfers.

    Raises GridTooFine where there is none above a millionth of a second.
    """
    times_s = [time for time in (*_moments(batch), *_durations(batch)) if 0 < time < math.inf]
    slot = _common_divisor([Fraction(time).limit_denominator(_DENOMINATOR) for time in times_s])
    if slot * _DENOMINATOR < 1 or not all(_divides(float(slot), time) for time in times_s):
        raise GridTooFine(
            "slot_s: no slot divides all ready times, changes of rate and lone transfers; give one"
        )
    return float(slot)


def _common_divisor(times: Sequence[Fraction]) -> Fraction:
    common = math.lcm(*(time.denominator for time in times))
    whole = math.gcd(*(time.numerator * (common // time.denominator) for time in times))
    return Fraction(whole or 1, common)


def _divides(slot_s: float, time_s: float) -> bool:
    slots = time_s / slot_s
    return math.isclose(slots, round(slots), rel_tol=_ROUNDING, abs_tol=_ROUNDING)


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
