"""One worker's side of one sum over all workers, piece by piece along trees; no I/O, no clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from mlfabric.payload import STRIPE, Payload, dense, total
from mlfabric.policies.base import Piece

UP, DOWN = 0, 1


class Part(NamedTuple):
    """A piece on its way from worker `src` to worker `dst`: a sum so far (UP) or the result."""

    src: int
    dst: int
    piece: int
    way: int
    payload: Payload


@dataclass(frozen=True)
class Place:
    """A worker's place in the two trees of a piece.

    It adds what `adds` send and gets the result from `source` (None: it is the root), `hops`
    messages after the first one was sent; then it tells `spreads`. `firsthand` are those of `adds`
    that send their own part, nobody else's; `heights` tells how many messages come before each's.
    """

    adds: tuple[int, ...]
    parent: int
    source: int | None
    spreads: tuple[int, ...]
    hops: int
    heights: tuple[int, ...]
    firsthand: tuple[int, ...]


@lru_cache(maxsize=1024)
def place_in(worker: int, up: tuple[int, ...], down: tuple[int, ...]) -> Place:
    """Where a worker is in trees as `Piece` has them."""
    rising, falling = _tree(up), _tree(down)
    adds = rising.children[worker]
    heights = tuple(rising.heights[child] for child in adds)
    return Place(
        adds=adds,
        parent=up[worker],
        source=None if worker == rising.root else down[worker],
        spreads=falling.children[worker],
        hops=rising.heights[rising.root] + falling.depths[worker],
        heights=heights,
        firsthand=tuple(c for c, height in zip(adds, heights, strict=True) if height == 0),
    )


@dataclass(frozen=True)
class _Tree:
    """Children of every worker; messages from the farthest below it, and from the root."""

    root: int
    children: tuple[tuple[int, ...], ...]
    heights: tuple[int, ...]
    depths: tuple[int, ...]


@lru_cache(maxsize=256)
def _tree(parents: tuple[int, ...]) -> _Tree:
    children: list[list[int]] = [[] for _ in parents]
    root = 0
    for worker, parent in enumerate(parents):
        if parent == worker:
            root = worker
        else:
            children[parent].append(worker)
    order = [root]
    for worker in order:  # grows while it is gone through: parents first
        order += children[worker]
    heights, depths = [0] * len(parents), [0] * len(parents)
    for worker in order[1:]:
        depths[worker] = depths[parents[worker]] + 1
    for worker in reversed(order[1:]):
        parent = parents[worker]
        heights[parent] = max(heights[parent], heights[worker] + 1)
    return _Tree(root, tuple(map(tuple, children)), tuple(heights), tuple(depths))


class Side:
    """What a worker does for each piece: whom it hears, and whom it tells."""

    def __init__(self, worker: int, pieces: Sequence[Piece]) -> None:
        self.worker = worker
        self.pieces = pieces
        self.places = [place_in(worker, piece.up, piece.down) for piece in pieces]

    @cached_property
    def receives(self) -> list[tuple[int, int, int]]:
        """(worker, piece, UP or DOWN) of all that comes here, in the order to be expected."""
        found = []
        for number, place in enumerate(self.places):
            coming = zip(place.heights, place.adds, strict=True)
            found += [(height, child, number, UP) for height, child in coming]
            if place.source is not None:
                found.append((place.hops, place.source, number, DOWN))
        found.sort(key=lambda one: one[0])
        return [(src, number, way) for _, src, number, way in found]

    @cached_property
    def entries_up(self) -> int:
        """Entries of all sums so far that come here."""
        both = zip(self.pieces, self.places, strict=True)
        return sum((piece.end - piece.begin) * len(place.adds) for piece, place in both)

    @cached_property
    def firsthand(self) -> dict[int, list[int]]:
        """By worker: pieces of which it sends its own part, nobody else's, to this worker."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, place in enumerate(self.places):
            for child in place.firsthand:
                found[child].append(number)
        return found

    @cached_property
    def firsthand_in_all(self) -> dict[int, int]:
        """By those workers: of how many pieces it sends its own part to anyone."""
        return {src: sum(_starts(piece, src) for piece in self.pieces) for src in self.firsthand}


def _starts(piece: Piece, worker: int) -> bool:
    place = place_in(worker, piece.up, piece.down)
    return not place.adds and place.source is not None


class TreeSum:
    """Once started, takes parts in any order; tells what to send."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._sparse = False
        self._sums: list[list[Payload]] = []
        self._results: dict[int, Payload] = {}

    def start(self, update: Payload) -> list[Part]:
        """The parts to send first, in the order of pieces."""
        self._sparse = update.indices is not None
        self._sums = [[part] for part in _cut(update, self._side.pieces)]
        return [part for piece in range(len(self._sums)) for part in self._rise(piece)]

    def receive(self, part: Part) -> list[Part]:
        """The parts that a received one allows to send."""
        if part.way == DOWN:
            return self._spread(part.piece, part.payload)
        self._sums[part.piece].append(part.payload)
        return self._rise(part.piece)

    def result(self) -> Payload | None:
        """The sum over all workers, None until it is complete."""
        if len(self._results) < len(self._sums):
            return None
        parts = [self._results[piece] for piece in range(len(self._sums))]
        if self._sparse:
            return total(parts)
        placed = sorted(zip(self._side.pieces, parts, strict=True), key=lambda pair: pair[0].begin)
        return dense(np.concatenate([part.values for _, part in placed]))

    def _rise(self, piece: int) -> list[Part]:
        side = self._side
        if len(self._sums[piece]) <= len(side.places[piece].adds):
            return []
        summed = total(self._sums[piece])
        place = side.places[piece]
        if place.source is None:
            return self._spread(piece, summed)
        return [Part(side.worker, place.parent, piece, UP, summed)]

    def _spread(self, piece: int, result: Payload) -> list[Part]:
        self._results[piece] = result
        side = self._side
        return [Part(side.worker, dst, piece, DOWN, result) for dst in side.places[piece].spreads]


def _cut(update: Payload, pieces: Sequence[Piece]) -> Iterator[Payload]:
    """A vector's pieces; entries of a sparse one cluster, so they are dealt out in stripes."""
    if update.indices is None:
        for piece in pieces:
            yield dense(update.values[piece.begin : piece.end])
        return
    number_of = (update.indices // STRIPE) % len(pieces)
    for number in range(len(pieces)):
        own = number_of == number
        yield Payload(update.size, update.indices[own], update.values[own])


class Seen:
    """How fast other workers' own parts come in, which wait for nobody: rates of their links."""

    def __init__(self, side: Side) -> None:
        self._expected = {src: set(pieces) for src, pieces in side.firsthand.items()}
        self._in_all = side.firsthand_in_all
        self._arrivals: dict[int, list[tuple[float, int]]] = {src: [] for src in self._expected}

    @property
    def complete(self) -> bool:
        """Whether all has come that tells of a rate."""
        return not any(self._expected.values())

    def arrived(self, src: int, piece: int, n_bytes: int, now: float) -> None:
        """A sum so far has come from a worker."""
        if piece in self._expected.get(src, ()):
            self._expected[src].remove(piece)
            self._arrivals[src].append((now, n_bytes))

    def bytes_per_s(self) -> dict[int, float]:
        """By worker, where at least two parts tell; to all that it sends its own parts to."""
        rates = {}
        for src, arrivals in self._arrivals.items():
            (first_s, first_bytes), (last_s, _) = arrivals[0], arrivals[-1]
            moved = sum(n_bytes for _, n_bytes in arrivals)
            if last_s > first_s and moved > first_bytes:
                here = (moved - first_bytes) / (last_s - first_s)
                rates[src] = here * self._in_all[src] / len(arrivals)
        return rates
