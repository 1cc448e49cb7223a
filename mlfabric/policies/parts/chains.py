"""Pieces that are summed along chains: a link carries two vectors, however many hosts there are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

from mlfabric.payload import even_cuts
from mlfabric.policies.base import Piece


@lru_cache(maxsize=64)
def chained(
    size: int,
    members: tuple[int, ...],
    leaves: tuple[int, ...],
    roots: tuple[int, ...],
    lanes: int,
) -> tuple[Piece, ...]:
    """A share of the vector for each root (a place among `members`), cut into lanes.

    A share's chain begins at the member after its root, passes all others and ends at the root,
    from where the result goes round once more: a member sends 2 (m - 1) / m of the vector where
    each is a root, never more than two vectors. Leaves send their part to each share's root, and
    get the result from there.
    """
    shares = even_cuts(0, size, len(roots))
    lanes_of = [even_cuts(begin, end, lanes) for begin, end in shares]
    trees = [_trees(members, leaves, (root + 1) % len(members)) for root in roots]
    return tuple(
        Piece(*lanes_of[share][lane], *trees[share])
        for lane in range(lanes)
        for share in range(len(roots))
    )


def _trees(
    members: Sequence[int], leaves: Sequence[int], first: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parents on the way up and on the way down, of the share whose chain begins at `first`."""
    chain = [*members[first:], *members[:first]]
    root = chain[-1]
    up = dict(itertools.pairwise(chain)) | {root: root}
    down = {chain[0]: root, root: root} | dict(zip(chain[1:-1], chain[:-2], strict=True))
    hanging = dict.fromkeys(leaves, root)
    everyone = range(len(members) + len(leaves))
    return (
        tuple((up | hanging)[worker] for worker in everyone),
        tuple((down | hanging)[worker] for worker in everyone),
    )
