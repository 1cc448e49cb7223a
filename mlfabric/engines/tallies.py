"""How far a run has come: versions, updates applied and dropped, of each server's share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

KEYS = ("version", "applied", "dropped")

Tally = dict[str, int]


def new_tally() -> Tally:
    """Nothing has happened."""
    return dict.fromkeys(KEYS, 0)


def mean_tally(tallies: Iterable[Mapping[str, int]], shards: int) -> Tally:
    """That of the whole model, of which each tally counts one of `shards` shares: rounded down."""
    found = list(tallies)
    return {key: sum(tally[key] for tally in found) // shards for key in KEYS}
